// PolicySamples: samples of texts that a policy wrote, one behind the other: what PackedSamples
// fill, and
//   lengths    of the texts, in tokens; 0 behind them
//   values     of each token, by its label: its advantage
//   reference  of each token, in three rows: the log-probability of its label by the policy as it
//              was when the text was written, by the model that it is to stay near, and by who
//              generated it; kUnknown where there is none
//   experts    with choices, of each token, in a row for each: the expert that it goes to, or -1
//   returns    with values, of each token, in two rows: what its text turned out to be worth from
//              there on, and what a value head had said of that
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/samples/samples.h"
#include "post/data/packed_samples.h"
#include "post/policy/rollouts.h"

namespace mt {

// A sample has no more texts than these.
inline constexpr std::int64_t kMostTextsOfSample = 64;
constexpr std::int64_t texts_of_sample(Packing packing) {
  return packing == Packing::none ? 1 : kMostTextsOfSample;
}

// choices: PolicySamples::How's.
FieldSpecs policy_fields(std::int64_t seq_length, Packing packing, bool values,
                         std::int64_t choices = 0);

// Texts share samples with others of their step, which has so many texts; behind the samples of a
// step come empty ones, so that there are as many as texts.  Of 0, all texts share samples, and
// none is empty.
Packed pack_steps(std::vector<Example> texts, Packing packing, std::int64_t step,
                  std::int64_t seq_length);

class PolicySamples final : public Samples {
 public:
  struct How {
    RolloutPasses passes = {};
    bool masks_truncated = false;  // of texts that were cut no token counts
    Packing packing = Packing::none;
    bool values = false;  // there is a value head
    // Experts that each token brings, of all layers together; 0: routers choose.
    std::int64_t choices = 0;
  };
  // `rollouts` are the examples of `packed`, in their order.  `reference`, unless it is empty: what
  // the model that the run began with says, seq_length numbers of each.
  PolicySamples(std::unique_ptr<PackedSamples> packed,
                std::shared_ptr<const std::vector<Rollout>> rollouts,
                std::shared_ptr<const std::vector<double>> reference, const How& how)
      : packed_(std::move(packed)),
        rollouts_(std::move(rollouts)),
        reference_(std::move(reference)),
        how_(how),
        fields_(policy_fields(packed_->packed().seq_length, how.packing, how.values, how.choices)) {
  }

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

  // How many of these, the first ones, are not empty.
  std::int64_t filled(std::int64_t first, std::int64_t samples) const;
  // Takes from what an evaluation says of the tokens of all samples (PolicyObjective::scores())
  // seq_length numbers for each text: its log-probabilities, or its values.
  enum class Said : std::uint8_t { log_probs, values };
  std::vector<double> of_texts(std::span<const double> of_samples,
                               Said which = Said::log_probs) const;

 private:
  const Bin& bin(std::int64_t k) const {
    return packed_->packed().bins[packed_->bin(how_.passes.text(k))];
  }

  std::unique_ptr<PackedSamples> packed_;
  std::shared_ptr<const std::vector<Rollout>> rollouts_;
  std::shared_ptr<const std::vector<double>> reference_;
  How how_;
  FieldSpecs fields_;
};

// Samples of all texts, each once, of which nothing is to be learnt.
std::unique_ptr<PolicySamples> samples_to_score(
    std::shared_ptr<const std::vector<Rollout>> rollouts, std::int64_t seq_length,
    const PolicySamples::How& how);

}  // namespace mt
