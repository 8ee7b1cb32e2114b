// PolicyTask: a policy learns from texts that it wrote and that were rewarded, by how much better
// each was than its group.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "post/packed_task.h"
#include "post/policy/policy_objective.h"
#include "post/policy/policy_options.h"
#include "post/policy/rollouts.h"

namespace mt {

class PolicyTask final : public PackedTask {
 public:
  using Rollouts = std::shared_ptr<std::vector<Rollout>>;
  // Without rollouts, which are those of data.train, it can be planned.
  explicit PolicyTask(const PolicyOptions& options, Data data = {}, Rollouts rollouts = {});

  const Objective& objective() const override { return objective_; }
  FieldSpecs sample_fields() const override;
  std::optional<DrawnWork> drawn_work() const override { return options_.drawn_work(); }
  std::int64_t filled(std::int64_t first, std::int64_t samples) const override {
    return samples_->filled(first, samples);
  }
  void build(const TrainingLength& length, std::uint64_t seed, const BatchOptions& batch,
             const Log& log) override;
  // Learns what the model that the run begins with says of all texts, where it is needed.
  void begin(std::int64_t iteration, const Scorer& score) const override;
  std::unique_ptr<Task> changed(const Change& change) const override;

 private:
  std::unique_ptr<Samples> make_samples(std::unique_ptr<PackedSamples> packed) const override;
  bool asks_reference() const;
  void take_reference() const;

  PolicyOptions options_;
  PolicyObjective objective_;
  Rollouts rollouts_;
  std::shared_ptr<std::vector<double>> reference_;  // once it is known
  mutable const PolicySamples* samples_ = nullptr;  // those that are learnt
  std::unique_ptr<SampleSet> referenced_;           // each text once
  const PolicySamples* referenced_samples_ = nullptr;
  mutable std::once_flag known_;
};

// Reads the rollouts of a run and completes its options, of which they have the length.  After
// PolicyOptions::take_losses().
std::unique_ptr<PolicyTask> open_policy(PolicyOptions& options, const Log& log);

}  // namespace mt
