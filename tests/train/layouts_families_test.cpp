// What decoders other than GPT-2 and Llama are made of, in layouts of each kind, against one rank.
#include "tests/train/layouts.h"

namespace mt {
namespace {

std::vector<TrainedLayout> family_layouts() {
  std::vector<TrainedLayout> all;
  for (const Style style : {Style::gemma, Style::command}) {
    const TrainedLayout plain{.style = style, .tied = style == Style::gemma, .ranks = 2};
    const auto add = [&](const std::function<void(TrainedLayout&)>& change) {
      change(all.emplace_back(plain));
    };
    for (const bool sequence : {false, true})
      add([&](TrainedLayout& l) {
        l.parallel.tensor_model_parallel_size = 2;
        l.parallel.sequence_parallel = sequence;
        l.recompute = sequence ? "full" : "mlp";
      });
    for (const char* const type : {"p2p", "a2a"})
      add([&](TrainedLayout& l) {
        l.parallel.context_parallel_size = 2;
        l.parallel.cp_comm_type = {type};
      });
    add([&](TrainedLayout& l) {
      l.parallel.pipeline_model_parallel_size = 2;
      l.recompute = "layernorm";
    });
    add([&](TrainedLayout& l) {
      l.parallel.pipeline_model_parallel_size = 2;
      l.pipeline.schedule = "zero-bubble";
    });
  }
  return all;
}

class FamilyLayouts : public Layouts {};
INSTANTIATE_TEST_SUITE_P(All, FamilyLayouts, testing::ValuesIn(family_layouts()), name_of_layout);

TEST_P(FamilyLayouts, AsOneRank) { expect_as_one_rank(); }

}  // namespace
}  // namespace mt
