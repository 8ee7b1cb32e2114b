// StageRange: which of a model's layers, as model/layers.h lists them, a stage of a pipeline holds,
// and whether it holds the ends of the model, or, where each stack has stages of its own, of its
// stack.
#pragma once

#include <cstdint>
#include <vector>

namespace mt {

struct StageRange {
  std::int64_t begin = 0, end = 0;
  bool first = true, last = true;
};
using StageRanges = std::vector<StageRange>;  // a rank's, one a chunk

}  // namespace mt
