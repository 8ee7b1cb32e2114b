#include "train/plan/out_of_memory.h"

#include <algorithm>

#include "train/options/run_options.h"
#include "train/run/task.h"

namespace mt {
namespace {

// What the run needs with the option.
Saving with(const std::string& option, const RunOptions& options, const Task& task) {
  return {option, make_plan(options, task).fullest().memory.total()};
}

Saving with_micro_batches(const RunOptions& options, const Task& task, const Plan& plan) {
  Saving last;
  RunOptions other = options;
  const std::int64_t whole = options.batch.micro_batch_size;
  for (std::int64_t size = whole / 2; size > 0; --size) {
    if (whole % size != 0) continue;
    const int more = static_cast<int>(whole / size);
    if (!options.ranks.layout.can_schedule(options.batch.micro_batches() * more)) continue;
    other.batch.micro_batch_size = size;
    last = with(concat("--micro-batch-size ", size), other, task);
    if (last.bytes <= plan.room()) break;
  }
  return last;
}

}  // namespace

std::vector<Saving> savings(const RunOptions& options, const Task& task, const Plan& plan) {
  std::vector<Saving> all;
  if (const Saving saving = with_micro_batches(options, task, plan); !saving.option.empty())
    all.push_back(saving);
  all.push_back(
      with("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
           options, *task.changed({.recomputes = true})));
  constexpr int kMostWalked = 1 << 14;  // such a plan walks all ranks
  if (const int dp = options.ranks.sizes().dp;
      dp > 1 && dp <= kMostWalked && !options.optimizer.use_distributed_optimizer) {
    RunOptions other = options;
    other.optimizer.use_distributed_optimizer = true;
    all.push_back(with("--use-distributed-optimizer", other, task));
  }
  if (const std::int64_t half = task.seq_length() / 2; half > 0)
    all.push_back(
        with(concat("--seq-length ", half), options, *task.changed({.seq_length = half})));
  std::erase_if(
      all, [&](const Saving& saving) { return saving.bytes >= plan.fullest().memory.total(); });
  std::ranges::stable_sort(all, {}, &Saving::bytes);
  return all;
}

void fail_out_of_memory(const std::string& what, const RunOptions& options, const Task& task,
                        const Plan& plan, const Log& log) {
  for (const LargeTensor& tensor : plan.fullest().largest)
    log.event("memory", {{"bytes", tensor.bytes()}, {"tensors", description(tensor)}});
  const std::vector<Saving> all = savings(options, task, plan);
  for (const Saving& saving : all)
    log.event("alternative", {{"bytes", saving.bytes}, {"option", saving.option}});
  if (all.empty()) fail(Exit::out_of_memory, what);
  fail(Exit::out_of_memory, what, "; ", all.front().option, " saves most: it would need ",
       all.front().bytes, all.front().bytes <= plan.room() ? "" : ", which is too much too");
}

}  // namespace mt
