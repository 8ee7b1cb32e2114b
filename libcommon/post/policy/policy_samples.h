// PolicySamples: samples of a single text each that a policy wrote: what PackedSamples fill, and
//   lengths    of the text, in tokens
//   values     of each token, by its label: its advantage
//   reference  of each token, three: the log-probability of its label by the policy as it was when
//              the text was written, by the model that it is to stay near, and by who generated it;
//              kUnknown where there is none
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/samples/samples.h"
#include "post/data/packed_samples.h"
#include "post/policy/rollouts.h"

namespace mt {

FieldSpecs policy_fields(std::int64_t seq_length);

class PolicySamples final : public Samples {
 public:
  struct How {
    RolloutPasses passes = {};
    bool masks_truncated = false;  // of texts that were cut no token counts
  };
  // `rollouts` are those of the bins of `packed`, in their order.  `reference`, unless it is empty:
  // what the model that the run began with says, seq_length numbers of each.
  PolicySamples(std::unique_ptr<PackedSamples> packed,
                std::shared_ptr<const std::vector<Rollout>> rollouts,
                std::shared_ptr<const std::vector<double>> reference, const How& how)
      : packed_(std::move(packed)),
        rollouts_(std::move(rollouts)),
        reference_(std::move(reference)),
        how_(how),
        fields_(policy_fields(packed_->packed().seq_length)) {}

  const std::string& name() const override { return packed_->name(); }
  std::int64_t size() const override { return packed_->size() * how_.passes.times; }
  const FieldSpecs& fields() const override { return fields_; }
  void get(std::int64_t k, const Fields& sample) const override;
  std::vector<std::string> lines(std::int64_t k, const Tokenizer& tokenizer) const override {
    return packed_->lines(how_.passes.text(k), tokenizer);
  }
  void write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const override {
    packed_->write(how_.passes.text(k), tokenizer, json);
  }
  Indexes indexes() const override { return {}; }

 private:
  std::unique_ptr<PackedSamples> packed_;
  std::shared_ptr<const std::vector<Rollout>> rollouts_;
  std::shared_ptr<const std::vector<double>> reference_;
  How how_;
  FieldSpecs fields_;
};

}  // namespace mt
