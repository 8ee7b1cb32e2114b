// Tensor and sequence parallelism, beside data parallelism, against one rank.
#include "tests/train/layouts.h"

namespace mt {
namespace {

std::vector<TrainedLayout> tensor_layouts() {
  std::vector<TrainedLayout> all;
  const std::vector<std::string> again{"", "full", "core_attn", "mlp", "layernorm"};
  std::size_t turn = 0;  // which recomputation is next
  for (const Style style : {Style::gpt, Style::llama})
    for (const bool tied : {true, false})
      for (const int tensor : {1, 2, 4})
        for (const bool sequence : {false, true})
          for (const int data : {1, 2, 4}) {
            if (tensor * data > 8 || (sequence && tensor == 1)) continue;
            TrainedLayout layout{.style = style, .tied = tied, .ranks = tensor * data};
            layout.parallel.tensor_model_parallel_size = tensor;
            layout.parallel.sequence_parallel = sequence;
            layout.distributed = data == 2;
            layout.recompute = again[turn++ % again.size()];
            all.push_back(layout);
            if (sequence && data == 1) {
              all.push_back(layout);
              all.back().parallel.tp_comm_overlap = true;
            }
            if (tied || data > 1) continue;
            layout.dtype = DType::f32;
            all.push_back(layout);
          }
  return all;
}

class TensorLayouts : public Layouts {};
INSTANTIATE_TEST_SUITE_P(All, TensorLayouts, in_this_run(tensor_layouts()), name_of_layout);

TEST_P(TensorLayouts, AsOneRank) { expect_as_one_rank(); }

}  // namespace
}  // namespace mt
