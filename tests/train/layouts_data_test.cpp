// Gradients that are summed while the backward goes on, weights that are gathered while the forward
// does, and instances of the distributed optimizer, against one rank.
#include "tests/train/layouts.h"

namespace mt {
namespace {

std::vector<TrainedLayout> data_layouts() {
  std::vector<TrainedLayout> all;
  for (const Style style : {Style::gpt, Style::llama})
    for (const bool tied : {true, false})
      for (const int data : {2, 4})
        for (const int stages : {1, 2})
          for (const bool distributed : {false, true})
            for (const std::int64_t bucket : {0, 1000, 20000}) {
              if (!distributed && bucket == 0) continue;  // among the other layouts
              TrainedLayout layout{.style = style, .tied = tied, .ranks = data * stages};
              layout.parallel.pipeline_model_parallel_size = stages;
              layout.recompute = bucket == 1000 ? "full" : "";
              layout.distributed = distributed;
              layout.instances = distributed && data == 4 ? (tied ? 2 : 4) : 1;
              layout.bucket = bucket;
              if (!distributed || data == 2 || bucket == 1000 || stages == 1) all.push_back(layout);
              if (bucket != 1000 || data == 4) continue;
              TrainedLayout narrow = layout;
              narrow.dtype = DType::f32;
              all.push_back(narrow);
              layout.ranks *= 2;
              layout.parallel.tensor_model_parallel_size = 2;
              layout.parallel.sequence_parallel = true;
              if (stages == 2) layout.pipeline.schedule = "zero-bubble";
              all.push_back(layout);
            }
  return all;
}

class DataLayouts : public Layouts {};
INSTANTIATE_TEST_SUITE_P(All, DataLayouts, in_this_run(data_layouts()), name_of_layout);

TEST_P(DataLayouts, AsOneRank) { expect_as_one_rank(); }

}  // namespace
}  // namespace mt
