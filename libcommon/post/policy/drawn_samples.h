// DrawnSamples: a run's samples of which only those are there that were drawn last.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "post/policy/policy_samples.h"

namespace mt {

class DrawnSamples final : public Samples {
 public:
  DrawnSamples(std::int64_t size, std::int64_t seq_length)
      : size_(size), fields_(policy_fields(seq_length)) {}
  ~DrawnSamples() override;

  const std::string& name() const override { return name_; }
  std::int64_t size() const override { return size_; }
  const FieldSpecs& fields() const override { return fields_; }
  // Exit::internal for one of another step.
  void get(std::int64_t k, const Fields& sample) const override;
  std::vector<std::string> lines(std::int64_t k, const Tokenizer& tokenizer) const override;
  void write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const override;
  Indexes indexes() const override { return {}; }

  // From now on they are these, from sample `first` on.
  void put(std::int64_t first, std::vector<Rollout> rollouts, std::int64_t seq_length,
           const PolicySamples::How& how);
  bool has(std::int64_t k) const { return step_ && k >= first_ && k - first_ < step_->size(); }

 private:
  const PolicySamples& of_step(std::int64_t k) const;

  std::string name_ = "--prompts";
  std::int64_t size_, first_ = 0;
  FieldSpecs fields_;
  std::unique_ptr<PolicySamples> step_;
};

}  // namespace mt
