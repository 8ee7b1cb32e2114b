// Evaluator: the mean losses of a model over a run of samples, without dropout and gradients.
#pragma once

#include <functional>
#include <optional>

#include "train/options/run_options.h"
#include "train/run/executor.h"
#include "train/run/task.h"

namespace mt {

class Evaluator {
 public:
  // Called on every rank of `world`.
  Evaluator(const RunOptions& options, const Task& task, Executor& executor, const World& world)
      : options_(options), task_(task), executor_(executor), world_(world) {}

  // The terms' values over `batches` global batches from the run's sample `first` on.  `stop` is
  // asked before every micro-batch, or in a pipeline every batch, on all ranks, which must answer
  // alike; once it says so there is no result.  What the model says of each sample is appended to
  // `scores`, on every rank, if there is such a thing (Objective::scores).
  std::optional<TermValues> run(const SampleSet& samples, std::int64_t first, std::int64_t batches,
                                const std::function<bool()>& stop,
                                std::vector<double>* scores = nullptr);

 private:
  void share_scores(std::span<const double> own, std::vector<double>& all) const;

  const RunOptions& options_;
  const Task& task_;
  Executor& executor_;
  const World& world_;
};

}  // namespace mt
