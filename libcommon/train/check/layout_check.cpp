#include "train/check/layout_check.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <ostream>

#include "comm/world.h"
#include "model/config/model_config.h"
#include "model/layers.h"
#include "train/options/run_options.h"
#include "train/plan/plan.h"
#include "train/report/timers.h"
#include "train/run/train_step.h"

namespace mt {
namespace {

using Tensors = LayoutRun::Tensors;

// A part of a row, its elements from `begin` on on this rank, goes to its place in the whole, where
// another rank that has the same part must have put the same.
void put(Tensors& whole, const Param& row, std::int64_t begin, const Tensor& part, double factor) {
  const std::int64_t end = begin + part.numel();
  std::vector<double>& to = whole[row.name()];
  to.resize(static_cast<std::size_t>(row.shape.numel()), std::nan(""));
  const auto put_one = [&](double& there, double value) {
    if (!std::isnan(there) && there != value)
      fail(Exit::difference, row.name(), ": is ", value, " on one rank and ", there, " on another");
    there = value;
  };
  with_float_type(part.dtype(), [&]<class T>() {
    for (const ElementRun& run : row.runs())
      for (std::int64_t i = std::max(begin, run.local); i < std::min(end, run.local + run.count);
           ++i)
        put_one(to[static_cast<std::size_t>(run.global + i - run.local)],
                static_cast<double>(part.as<T>()[i - begin]) * factor);
  });
}

// One rank's steps; what it has of them goes to `run`, which all share.
class LayoutRank {
 public:
  LayoutRank(const RunOptions& options, const Task& task, const Plan& plan, const World& world,
             LayoutRun& run, std::mutex& mutex)
      : options_(options),
        run_(run),
        mutex_(mutex),
        stream_(Device::cpu, options.ranks.threads_of_each()),
        model_(task.make_model(options.ranks.layout.of_rank(world.position().pp),
                               tensor_part(options.ranks.parallel, world))),
        optimizer_(model_->table(), Device::cpu, options.compute_dtype(), options.optimizer, world),
        executor_(*model_, task.objective(), step_shape(options, task), plan.of(world).memory.step,
                  world, stream_),
        interruption_(world.all(), {}),
        step_(options,
              {task, *model_, optimizer_, executor_, world, stream_, timers_, interruption_}) {
    optimizer_.set_values(
        [&](const Param& row) { initialize(row, row.value, options.seed, stream_); }, stream_);
    executor_.share(optimizer_.sharing());
    if (WeightCodes* const codes = executor_.gathered_codes())
      optimizer_.gather_codes(*codes, stream_);
  }

  void run() {
    std::int64_t samples = 0;
    for (std::size_t i = 0; i < run_.steps.size(); ++i) {
      const BatchOptions::StepSize size = options_.batch.step_size(samples);
      const StepRates rates = options_.schedule.at(samples);
      const TrainStep::Result result = step_.run({.iteration = static_cast<std::int64_t>(i) + 1,
                                                  .first_sample = samples,
                                                  .micro_batches = size.micro_batches,
                                                  .rates = rates});
      samples += size.computed;
      const std::lock_guard lock(mutex_);
      run_.steps[i].loss = result.loss;
      run_.steps[i].grad_norm = result.update.grad_norm;
      put_gradients(run_.steps[i].gradients, result.divisor);
    }
    optimizer_.read_values(
        [&](const Param& row) {
          const std::lock_guard lock(mutex_);
          if (row.packed_as == PackedAs::none) put(run_.weights, row, 0, row.value, 1);
        },
        stream_);
  }

 private:
  // Puts the gradients of the parts that this rank updates; the others may be sums of fewer ranks.
  void put_gradients(Tensors& whole, double divisor) const {
    for (const Optimizer::Piece& piece : optimizer_.pieces())
      put(whole, *piece.row, piece.begin, piece.gradient, 1 / divisor);
  }

  const RunOptions& options_;
  LayoutRun& run_;
  std::mutex& mutex_;
  Stream stream_;
  std::unique_ptr<Model> model_;
  Optimizer optimizer_;
  Executor executor_;
  Timers timers_;
  Interruption interruption_;
  TrainStep step_;
};

}  // namespace

LayoutRun run_layout(const RunOptions& options, const Task& task, int steps) {
  LayoutRun run;
  run.steps.resize(static_cast<std::size_t>(steps));
  std::mutex mutex;
  const Plan plan = make_plan(options, task);
  run_ranks(options.ranks.count, [&](Group& ranks) {
    const World world(ranks, options.ranks.sizes(), options.ranks.layout.sharing);
    LayoutRank(options, task, plan, world, run, mutex).run();
  });
  return run;
}

RunOptions on_one_rank(RunOptions options, const Task& task) {
  if (task.objective().spans_ranks())  // as many samples are one batch
    options.batch.micro_batch_size *= options.batch.ranks;
  options.batch.ranks = options.ranks.count = 1;
  options.ranks.parallel = {};
  options.ranks.pipeline = {};
  options.ranks.layout = make_pipeline_layout({}, 1, layers_of(task.model()));
  options.optimizer.use_distributed_optimizer = false;
  options.optimizer.distributed_optimizer_instances = 1;
  options.optimizer.sharding_strategy = "no_shard";
  options.optimizer.overlap_grad_reduce = options.optimizer.overlap_param_gather = false;
  options.fp8.param_gather = false;
  return options;
}

static void compare(LayoutDifference& worst, double difference, const std::string& where) {
  if (!(difference <= worst.value)) worst = {difference, where};  // also if it is no number
}

static void compare(LayoutDifference& worst, const Tensors& got, const Tensors& expected,
                    const std::string& what) {
  if (got.size() != expected.size())
    fail(Exit::internal, what, ": ", got.size(), " parameters, expected ", expected.size());
  for (const auto& [name, values] : expected) {
    const std::vector<double>& others = got.at(name);
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(values[i]));
      const double here = std::abs(others[i] - values[i]);
      if (!(here <= difference)) difference = here;
    }
    compare(worst, largest > 0 ? difference / largest : difference, concat(what, name));
  }
}

LayoutDifference largest_difference(const LayoutRun& got, const LayoutRun& expected) {
  LayoutDifference worst{.value = 0, .where = "nowhere"};
  for (std::size_t i = 0; i < expected.steps.size(); ++i) {
    const LayoutRun::Step &a = got.steps[i], &b = expected.steps[i];
    compare(worst, std::abs(a.loss - b.loss) / b.loss, concat("loss of step ", i + 1));
    compare(worst, std::abs(a.grad_norm - b.grad_norm) / b.grad_norm,
            concat("gradient norm of step ", i + 1));
    compare(worst, a.gradients, b.gradients, concat("gradient of step ", i + 1, " of "));
  }
  if (!expected.weights.empty()) compare(worst, got.weights, expected.weights, "weight ");
  return worst;
}

void check_layout(const RunOptions& options, Task& task, const Log& log, std::ostream& out) {
  if (options.batch.ranks > 1 && task.model().balances_by("global_aux_loss"))
    fail(Exit::bad_config,
         "--check-layout: not with --moe-router-load-balancing-type global_aux_loss, which "
         "data-parallel ranks have together");
  const bool exact = options.compute_dtype() == DType::f64;
  const int steps = exact ? 2 : 1;
  task.build(training_length(options.length, options.batch, options.evaluation,
                             task.has_full_validation()),
             options.seed, options.batch, log);
  LayoutRun got = run_layout(options, task, steps);
  LayoutRun one = run_layout(on_one_rank(options, task), task, steps);
  if (!exact) got.weights = one.weights = {};
  const double tolerance = exact ? 1e-9 : 1e-5;
  const LayoutDifference worst = largest_difference(got, one);
  out << options.ranks.count << " ranks and one: " << steps << (exact ? " steps" : " step")
      << ", losses " << one.steps.front().loss << " to " << one.steps.back().loss << ", "
      << one.steps.front().gradients.size()
      << " gradients each\nlargest difference: " << worst.value << ", " << worst.where
      << "; at most " << tolerance << " is right\n";
  if (!(worst.value <= tolerance))
    fail(Exit::difference, "--check-layout: ", worst.where, " differs by ", worst.value,
         " from one rank's, expected at most ", tolerance);
}

}  // namespace mt
