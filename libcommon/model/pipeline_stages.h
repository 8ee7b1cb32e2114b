// PipelineStages: which layers, and which of embedding and loss, lie on which stage of a pipeline.
// Megatron's flags and rules (its words where it refuses).
#pragma once

#include <string>
#include <vector>

#include "model/pipeline_options.h"
#include "model/stage_range.h"

namespace mt {

struct LayerPlan;  // model/layers.h

struct PipelineStages {
  int chunks = 1;      // of each rank
  StageRanges ranges;  // stage c ranks + r is chunk c of rank r
};

// Without options each rank has an equal part of the layers; with several chunks, each chunk of it.
// `ranks` are those beside an encoder's own.  Exit::usage and Exit::bad_config for what does not
// fit together.
PipelineStages make_pipeline_stages(const PipelineOptions& options, int ranks,
                                    const std::vector<LayerPlan>& layers);

// The stages of a --pipeline-model-parallel-layout, such as "Et*3|(tt|)*29,m|L": each the letters E
// (embedding), t (layer), m (layer of multi-token prediction) and L (loss) that it holds.  `|`
// begins a stage, (…)*n and x*n repeat, the former first; commas and spaces are for readers.
std::vector<std::string> stages_of_layout(const std::string& layout);

// Exit::bad_config unless a layout has no letter m, or one for each further token that a model
// predicts.
void check_layout_predicts(const std::string& layout, std::int64_t further_tokens);

}  // namespace mt
