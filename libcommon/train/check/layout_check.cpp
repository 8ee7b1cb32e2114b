#include "train/check/layout_check.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "comm/world.h"
#include "model/families/gpt.h"
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
  LayoutRank(const TrainOptions& options, const TrainData& data, const Plan& plan,
             const World& world, LayoutRun& run, std::mutex& mutex)
      : options_(options),
        run_(run),
        mutex_(mutex),
        stream_(Device::cpu, options.threads_of_rank()),
        task_(options),
        model_(task_.make_model(options.pipeline_layout.of_rank(world.position().pp),
                                tensor_part(options, world))),
        optimizer_(model_->table(), Device::cpu, options.compute_dtype(), options.optimizer, world),
        executor_(*model_, task_.objective(), step_shape(options, task_),
                  plan.of(world).memory.step, world, stream_),
        interruption_(world.all(), {}),
        step_(options, data,
              {task_, *model_, optimizer_, executor_, world, stream_, timers_, interruption_}) {
    optimizer_.set_values(
        [&](const Param& row) { initialize(row, row.value, options.seed, stream_); }, stream_);
    executor_.share(optimizer_.sharing());
  }

  void run() {
    std::int64_t samples = 0;
    for (std::size_t i = 0; i < run_.steps.size(); ++i) {
      const TrainOptions::StepSize size = options_.step_size(samples);
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
          put(run_.weights, row, 0, row.value, 1);
        },
        stream_);
  }

 private:
  // Puts the gradients of the parts that this rank updates; the others may be sums of fewer ranks.
  void put_gradients(Tensors& whole, double divisor) const {
    for (const Optimizer::Piece& piece : optimizer_.pieces())
      put(whole, *piece.row, piece.begin, piece.gradient, 1 / divisor);
  }

  const TrainOptions& options_;
  LayoutRun& run_;
  std::mutex& mutex_;
  Stream stream_;
  Pretraining task_;
  std::unique_ptr<Model> model_;
  Optimizer optimizer_;
  Executor executor_;
  Timers timers_;
  Interruption interruption_;
  TrainStep step_;
};

}  // namespace

LayoutRun run_layout(const TrainOptions& options, const TrainData& data, int steps) {
  LayoutRun run;
  run.steps.resize(static_cast<std::size_t>(steps));
  std::mutex mutex;
  const Plan plan = make_plan(options);
  run_ranks(options.ranks, [&](Group& ranks) {
    const World world(ranks, options.parallel_sizes());
    LayoutRank(options, data, plan, world, run, mutex).run();
  });
  return run;
}

TrainOptions on_one_rank(TrainOptions options) {
  options.ranks = 1;
  options.parallel = {};
  options.pipeline = {};
  options.pipeline_layout = make_pipeline_layout({}, 1, options.model.num_layers);
  options.optimizer.use_distributed_optimizer = false;
  options.optimizer.distributed_optimizer_instances = 1;
  options.optimizer.sharding_strategy = "no_shard";
  options.optimizer.overlap_grad_reduce = options.optimizer.overlap_param_gather = false;
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

void check_layout(const TrainOptions& options, TrainData& data, const Log& log, std::ostream& out) {
  const bool exact = options.compute_dtype() == DType::f64;
  const int steps = exact ? 2 : 1;
  data.build(options.length(), options.seed, options.sampler(), log);
  LayoutRun got = run_layout(options, data, steps);
  LayoutRun one = run_layout(on_one_rank(options), data, steps);
  if (!exact) got.weights = one.weights = {};
  const double tolerance = exact ? 1e-9 : 1e-5;
  const LayoutDifference worst = largest_difference(got, one);
  out << options.ranks << " ranks and one: " << steps << (exact ? " steps" : " step") << ", losses "
      << one.steps.front().loss << " to " << one.steps.back().loss << ", "
      << one.steps.front().gradients.size()
      << " gradients each\nlargest difference: " << worst.value << ", " << worst.where
      << "; at most " << tolerance << " is right\n";
  if (!(worst.value <= tolerance))
    fail(Exit::difference, "--check-layout: ", worst.where, " differs by ", worst.value,
         " from one rank's, expected at most ", tolerance);
}

}  // namespace mt
