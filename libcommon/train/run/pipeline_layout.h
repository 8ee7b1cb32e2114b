// PipelineLayout: the stages of a pipeline (model/pipeline_stages.h), and what each rank does in a
// step.
#pragma once

#include <string>

#include "model/stage_range.h"
#include "train/run/schedule.h"

namespace mt {

struct LayerPlan;  // model/layers.h
struct PipelineOptions;

struct PipelineLayout {
  int ranks = 1, chunks = 1, group = 1;
  std::string schedule = "1f1b";
  StageRanges stages;                          // stage c ranks + r is chunk c of rank r
  std::vector<std::vector<int>> sharing = {};  // sharing_ranks() of them

  PipelinePlace place(int rank) const;
  StageRanges of_rank(int rank) const;
  // loading: on GPUs that may load kernels in this step.
  Schedule training(int rank, int micro_batches, bool loading = false) const;
  // How many of a batch's micro-batches are evaluated at a time: one by one rank alone, all by
  // several.
  int evaluated_at_once(int micro_batches) const { return ranks == 1 ? 1 : micro_batches; }
  Schedule evaluation(int rank, int micro_batches) const;
  // Exit::bad_config if a step of so many cannot be scheduled.
  void check_step(int micro_batches) const;
  bool can_schedule(int micro_batches) const {
    return chunks == 1 || can_interleave(place(0), micro_batches);
  }
};

// Exit::usage and Exit::bad_config for what does not fit together.
PipelineLayout make_pipeline_layout(const PipelineOptions& options, int ranks,
                                    const std::vector<LayerPlan>& layers);

}  // namespace mt
