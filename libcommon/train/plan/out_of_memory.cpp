#include "train/plan/out_of_memory.h"

#include <algorithm>

namespace mt {
namespace {

// The plan of the same run with something else.
template <class Change>
Saving with(const std::string& option, TrainOptions options, const Change& change) {
  change(options);
  return {option, make_plan(options).fullest().memory.total()};
}

Saving with_micro_batches(const TrainOptions& options, const Plan& plan) {
  Saving last;
  for (std::int64_t size = options.micro_batch_size / 2; size > 0; --size) {
    if (options.micro_batch_size % size != 0) continue;
    const int more = static_cast<int>(options.micro_batch_size / size);
    if (!options.pipeline_layout.can_schedule(options.micro_batches() * more)) continue;
    last = with(concat("--micro-batch-size ", size), options,
                [&](TrainOptions& o) { o.micro_batch_size = size; });
    if (last.bytes <= plan.room()) break;
  }
  return last;
}

Saving with_recomputation(const TrainOptions& options) {
  return with("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
              options, [](TrainOptions& o) {
                o.model.recompute = {.granularity = "full", .method = "uniform", .num_layers = 1};
                o.model.recompute.complete(o.model.num_layers);
              });
}

}  // namespace

std::vector<Saving> savings(const TrainOptions& options, const Plan& plan) {
  std::vector<Saving> all;
  if (const Saving saving = with_micro_batches(options, plan); !saving.option.empty())
    all.push_back(saving);
  if (options.model.recompute.granularity != "full") all.push_back(with_recomputation(options));
  constexpr int kMostWalked = 1 << 14;  // such a plan walks all ranks
  if (const int dp = options.parallel_sizes().dp;
      dp > 1 && dp <= kMostWalked && !options.optimizer.use_distributed_optimizer)
    all.push_back(with("--use-distributed-optimizer", options,
                       [](TrainOptions& o) { o.optimizer.use_distributed_optimizer = true; }));
  if (const std::int64_t half = options.data.seq_length / 2; half > 0)
    all.push_back(with(concat("--seq-length ", half), options,
                       [&](TrainOptions& o) { o.data.seq_length = half; }));
  std::erase_if(
      all, [&](const Saving& saving) { return saving.bytes >= plan.fullest().memory.total(); });
  std::ranges::stable_sort(all, {}, &Saving::bytes);
  return all;
}

void fail_out_of_memory(const std::string& what, const TrainOptions& options, const Plan& plan,
                        const Log& log) {
  for (const LargeTensor& tensor : plan.fullest().largest)
    log.event("memory", {{"bytes", tensor.bytes()}, {"tensors", description(tensor)}});
  const std::vector<Saving> all = savings(options, plan);
  for (const Saving& saving : all)
    log.event("alternative", {{"bytes", saving.bytes}, {"option", saving.option}});
  if (all.empty()) fail(Exit::out_of_memory, what);
  fail(Exit::out_of_memory, what, "; ", all.front().option, " saves most: it would need ",
       all.front().bytes, all.front().bytes <= plan.room() ? "" : ", which is too much too");
}

}  // namespace mt
