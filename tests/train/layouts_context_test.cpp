// Context parallelism, beside tensor, sequence and data parallelism, against one rank.
#include "tests/train/layouts.h"

namespace mt {
namespace {

std::vector<TrainedLayout> context_layouts() {
  std::vector<TrainedLayout> all;
  const std::vector<std::string> again{"", "full", "core_attn"};
  std::size_t turn = 0;  // which recomputation, and which of the other things, is next
  for (const Style style : {Style::gpt, Style::llama})
    for (const char* type : {"p2p", "all_gather", "a2a", "a2a+p2p"})
      for (const int context : {2, 4})
        for (const int tensor : {1, 2}) {
          TrainedLayout layout{.style = style, .tied = tensor == 1};
          ParallelOptions& parallel = layout.parallel;
          parallel.context_parallel_size = context;
          parallel.tensor_model_parallel_size = tensor;
          parallel.sequence_parallel = tensor == 2 && context == 2;
          parallel.cp_comm_type = {type};
          if (parallel.cp_comm_type[0] == "a2a+p2p")
            parallel.hierarchical_context_parallel_sizes = {2, context / 2};
          if (parallel.cp_comm_type[0] == "a2a" && context * tensor > 4 && style == Style::llama)
            continue;  // four key heads
          layout.ranks = context * tensor * (context == 2 ? 2 : 1);
          layout.recompute = again[turn % again.size()];
          layout.documents = turn % 4 == 1;
          layout.per_token_loss = turn % 4 == 2;
          layout.distributed = turn++ % 2 == 1;
          all.push_back(layout);
          if (tensor == 2) continue;
          layout.dtype = DType::f32;
          layout.recompute = "";
          all.push_back(layout);
        }
  for (const char* type : {"p2p", "all_gather"}) {  // three ranks have six chunks of three tokens
    TrainedLayout odd{.style = Style::llama, .ranks = 3, .seq_length = 18};
    odd.parallel.context_parallel_size = 3;
    odd.parallel.cp_comm_type = {type};
    all.push_back(odd);
  }
  TrainedLayout mixed{.ranks = 4};
  mixed.parallel.context_parallel_size = 4;
  mixed.parallel.cp_comm_type = {"a2a", "p2p"};
  all.push_back(mixed);
  for (const int tensor : {1, 2}) {
    TrainedLayout staged{.style = Style::llama, .ranks = 4 * tensor};
    staged.parallel.context_parallel_size = staged.parallel.pipeline_model_parallel_size = 2;
    staged.parallel.tensor_model_parallel_size = tensor;
    staged.parallel.sequence_parallel = tensor == 2;
    all.push_back(staged);
  }
  return all;
}

class ContextLayouts : public Layouts {};
INSTANTIATE_TEST_SUITE_P(All, ContextLayouts, in_this_run(context_layouts()), name_of_layout);

TEST_P(ContextLayouts, AsOneRank) { expect_as_one_rank(); }

}  // namespace
}  // namespace mt
