// Ways to divide a run of mt-finetune among ranks, for tests: tensor, pipeline, context and data
// parallelism, the last with weights and states whole or in parts, or with other experts.
#pragma once

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "train/options/run_options.h"

namespace mt {

struct FinetuneLayout {
  int data = 1, tensor = 1, pipeline = 1, context = 1;
  bool shares_rows = false, distributed = false;
  const char* sharding = "no_shard";
  int experts = 1;  // ranks that share them, of the data-parallel ones

  int ranks() const { return data * tensor * pipeline * context; }
  std::string name() const {
    return concat("dp", data, "_tp", tensor, "_pp", pipeline, "_cp", context,
                  shares_rows ? "_rows" : "", distributed ? "_" : "", distributed ? sharding : "",
                  experts > 1 ? concat("_ep", experts) : "");
  }
  void divide(RunOptions& run) const {
    run.optimizer.use_distributed_optimizer = distributed;
    run.optimizer.sharding_strategy = sharding;
    run.ranks.count = ranks();
    ParallelOptions& parallel = run.ranks.parallel;
    parallel.tensor_model_parallel_size = tensor;
    parallel.pipeline_model_parallel_size = pipeline;
    parallel.context_parallel_size = context;
    parallel.expert_model_parallel_size = experts;
    parallel.sequence_parallel = shares_rows;
  }
};

// Of some layouts every so-manieth; with MT_ALL_LAYOUTS set, all.
inline std::vector<FinetuneLayout> some_layouts(std::vector<FinetuneLayout> all,
                                                std::size_t every) {
  if (std::getenv("MT_ALL_LAYOUTS") != nullptr) return all;
  std::vector<FinetuneLayout> some;
  for (std::size_t i = 0; i < all.size(); i += every) some.push_back(all[i]);
  return some;
}

// Of all 47 ways to divide a run among these, 23 where ranks share no sequence.
inline std::vector<FinetuneLayout> finetune_layouts(std::size_t every, int most_context = 2) {
  std::vector<FinetuneLayout> all;
  for (const FinetuneLayout& data :
       {FinetuneLayout{}, FinetuneLayout{.data = 2}, FinetuneLayout{.data = 2, .distributed = true},
        FinetuneLayout{.data = 2, .distributed = true, .sharding = "optim_grads_params"}})
    for (const auto& [tensor, shares_rows] : {std::pair(1, false), {2, false}, {2, true}})
      for (const int pipeline : {1, 2})
        for (int context = 1; context <= most_context; ++context) {
          FinetuneLayout layout = data;
          layout.tensor = tensor;
          layout.shares_rows = shares_rows;
          layout.pipeline = pipeline;
          layout.context = context;
          if (layout.ranks() > 1) all.push_back(layout);
        }
  return some_layouts(std::move(all), every);
}

}  // namespace mt
