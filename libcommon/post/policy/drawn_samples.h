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
  // So many, made of that many texts a step.
  DrawnSamples(std::int64_t size, std::int64_t step, std::int64_t seq_length,
               const PolicySamples::How& how)
      : size_(size),
        step_size_(step),
        seq_length_(seq_length),
        how_(how),
        fields_(policy_fields(seq_length, how.packing, how.values, how.choices)) {}
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
  void put(std::int64_t first, std::vector<Rollout> rollouts);
  bool has(std::int64_t k) const { return step_ && k >= first_ && k - first_ < step_->size(); }
  // PolicySamples::filled().
  std::int64_t filled(std::int64_t first, std::int64_t samples) const {
    return of_step(first).filled(first - first_, samples);
  }

 private:
  const PolicySamples& of_step(std::int64_t k) const;

  std::string name_ = "--prompts";
  std::int64_t size_, step_size_, seq_length_, first_ = 0;
  PolicySamples::How how_;
  FieldSpecs fields_;
  std::unique_ptr<PolicySamples> step_;
};

}  // namespace mt
