// SharingStages: which stages of a pipeline have a row in common that each of them uses, as the
// sets of ranks of sharing_ranks() (Param::sharing_stages).
#pragma once

#include <vector>

#include "model/stage_range.h"

namespace mt {

struct LayerPlan;  // model/layers.h

enum class SharingStages : int {
  words,       // all that embed or have the head: tied words
  embeddings,  // all that embed
  encoder,     // all with layers of the first of two stacks, or of the second
  decoder
};

// The ranks of a pipeline that hold them, in ascending order; stage c ranks + r is one of rank r.
// A model with one stack has the first set alone.
std::vector<std::vector<int>> sharing_ranks(const StageRanges& stages, int ranks,
                                            const std::vector<LayerPlan>& layers);

}  // namespace mt
