// Layouts of models with an encoder, BERT and T5: kinds of them, each with tied and untied words,
// recomputation and sharding by turns.
#pragma once

#include <string>
#include <vector>

#include "tests/train/layouts.h"

namespace mt {

struct LayoutKind {
  int tensor = 1, stages = 1, data = 1;
  bool sequence = false;
  PipelineOptions pipeline = {};
};

// Adds these kinds of `base`, whose bucket is that of ranks that share nothing.  `turn` says which
// recomputation and sharding are next.
inline void add_layouts(std::vector<TrainedLayout>& all, const TrainedLayout& base,
                        const std::vector<LayoutKind>& kinds, std::size_t& turn) {
  const std::vector<std::string> again{"", "full", "core_attn", "mlp", "layernorm"};
  const std::vector<std::string> sharded{"no_shard", "optim", "optim_grads", "optim_grads_params"};
  for (const bool tied : {true, false})
    for (const LayoutKind& kind : kinds)
      for (const bool shared : {false, true}) {
        if (shared && kind.data == 1) continue;
        TrainedLayout layout = base;
        layout.tied = tied;
        layout.ranks = kind.tensor * kind.stages * kind.data;
        layout.pipeline = kind.pipeline;
        layout.parallel.tensor_model_parallel_size = kind.tensor;
        layout.parallel.pipeline_model_parallel_size = kind.stages;
        layout.parallel.sequence_parallel = kind.sequence;
        layout.recompute = again[turn % again.size()];
        if (shared) layout.sharding = sharded[turn % sharded.size()];
        layout.distributed = shared && layout.sharding == "no_shard";
        if (kind.data == 1 || layout.sharding != "no_shard") layout.bucket = {};
        ++turn;
        all.push_back(layout);
        if (tied || kind.data > 1) continue;
        layout.dtype = DType::f32;
        all.push_back(layout);
      }
}

}  // namespace mt
