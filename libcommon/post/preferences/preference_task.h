// PreferenceTask: a model learns which of two texts people prefer, or to say of each text how good
// it is.
#pragma once

#include <memory>
#include <mutex>

#include "post/packed_task.h"
#include "post/preferences/preference_objective.h"
#include "post/preferences/preference_options.h"
#include "post/preferences/reference.h"

namespace mt {

class PreferenceTask final : public PackedTask {
 public:
  // Without data it can be planned.
  explicit PreferenceTask(const PreferenceOptions& options, Data data = {});

  const Objective& objective() const override { return objective_; }
  FieldSpecs sample_fields() const override;
  void build(const TrainingLength& length, std::uint64_t seed, const BatchOptions& batch,
             const Log& log) override;
  // Learns what the model that the run begins with says of all texts.
  void begin(std::int64_t iteration, const Scorer& score) const override;
  std::unique_ptr<Task> changed(const Change& change) const override;

 private:
  std::unique_ptr<Samples> make_samples(std::unique_ptr<PackedSamples> packed) const override;
  std::vector<double> by_bins(const SampleSet& set, std::span<const double> said) const;

  PreferenceOptions options_;
  std::int64_t pairs_ = 1;  // of a sample, at most
  PreferenceObjective objective_;
  std::shared_ptr<std::vector<double>> train_, valid_;  // the reference, once it is known
  // The reference is asked of these, which have each sample once, in the order of the first epoch:
  // then the same ones are computed together, and no bit differs.
  std::vector<std::unique_ptr<SampleSet>> referenced_;
  mutable std::once_flag known_;
};

// Reads the data of a run and completes its options, of which the data has the length.  After
// PreferenceOptions::take_losses().
std::unique_ptr<PreferenceTask> open_preferences(PreferenceOptions& options, const Log& log);

}  // namespace mt
