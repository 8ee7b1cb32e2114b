#include "train/run/pipeline_layout.h"

#include "base/error.h"
#include "model/layers.h"
#include "model/pipeline_stages.h"
#include "model/sharing_stages.h"

namespace mt {

PipelineLayout make_pipeline_layout(const PipelineOptions& o, int ranks,
                                    const std::vector<LayerPlan>& layers) {
  PipelineStages stages = make_pipeline_stages(o, ranks - o.encoder_ranks, layers);
  // Where an encoder has stages of its own in files, each stack's first and last are told apart.
  for (StageRange& range : stages.ranges) {
    range.first = &range == &stages.ranges.front();
    range.last = &range == &stages.ranges.back();
  }
  if (stages.chunks > 1 && o.schedule != "1f1b")
    fail(Exit::usage, "--pipeline-schedule ", o.schedule, ": not with virtual stages");
  if (stages.chunks == 1 && o.microbatch_group_size)
    fail(Exit::usage, "--microbatch-group-size-per-virtual-pipeline-stage: needs virtual stages");
  return {.ranks = ranks,
          .chunks = stages.chunks,
          .group = o.microbatch_group_size.value_or(ranks),
          .schedule = o.schedule,
          .stages = stages.ranges,
          .sharing = sharing_ranks(stages.ranges, ranks, layers)};
}

PipelinePlace PipelineLayout::place(int rank) const {
  return {.rank = rank, .ranks = ranks, .chunks = chunks, .group = group};
}

StageRanges PipelineLayout::of_rank(int rank) const {
  StageRanges own;
  for (int chunk = 0; chunk < chunks; ++chunk)
    own.push_back(stages[static_cast<std::size_t>(chunk * ranks + rank)]);
  return own;
}

Schedule PipelineLayout::training(int rank, int micro_batches, bool loading) const {
  if (chunks > 1 && loading) return interleaved_loading(place(rank), micro_batches);
  if (chunks > 1) return interleaved(place(rank), micro_batches);
  if (schedule == "gpipe") return gpipe(place(rank), micro_batches);
  if (schedule == "zero-bubble") return zero_bubble(place(rank), micro_batches);
  return one_f_one_b(place(rank), micro_batches);
}

Schedule PipelineLayout::evaluation(int rank, int micro_batches) const {
  return forward_only(place(rank), evaluated_at_once(micro_batches));
}

void PipelineLayout::check_step(int micro_batches) const {
  if (chunks > 1) check_interleaving(place(0), micro_batches);
}

}  // namespace mt
