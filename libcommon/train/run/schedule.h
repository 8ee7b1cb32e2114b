// Schedules as data (DESIGN D8): what one rank of a pipeline does in a step, in order.  Pure
// functions of the place; one executor runs the list, and tests walk all ranks of all schedules
// without a device.
//
// A rank holds one or more chunks of the model; chunk c of rank r of p is stage c p + r.  A
// micro-batch's activations in a chunk live in one of the chunk's slots from its forward to the
// backward, or to the weight gradients where the list has those; so the number of slots, and with
// it the memory, is known from the list.  Micro-batches go backwards in their order in every
// schedule, so that all add up gradients alike.
//
// Below, F, B and W are the times of a rank's forward, backward and weight gradients of one
// micro-batch, over all of its chunks; the bubble is the time for which a rank waits.
#pragma once

#include <cstdint>
#include <vector>

namespace mt {

struct Action {
  enum class Kind : std::uint8_t {
    receive_forward,  // from the stage before
    forward,
    send_forward,      // to the stage after
    receive_backward,  // from the stage after
    backward,
    send_backward,     // to the stage before
    weight_gradients,  // those that the micro-batch's backward has queued
  };
  Kind kind;
  int micro_batch = 0, chunk = 0, slot = 0;
  friend bool operator==(const Action&, const Action&) = default;
};

bool computes(const Action& action);  // else it sends or receives

using Schedule = std::vector<Action>;

// Where a list is run.
struct PipelinePlace {
  int rank = 0, ranks = 1, chunks = 1;
  // Micro-batches that a chunk computes before the next chunk's turn, if there are several
  // (Megatron's --microbatch-group-size-per-virtual-pipeline-stage).
  int group = ranks;

  bool is_first(int chunk) const { return rank == 0 && chunk == 0; }
  bool is_last(int chunk) const { return rank == ranks - 1 && chunk == chunks - 1; }
};

// All forwards, then all backwards (Huang et al.: arXiv:1811.06965, fig. 2).  Bubble (p-1)(F+B+W).
Schedule gpipe(const PipelinePlace& place, int micro_batches);

// 1F1B (Narayanan et al.: arXiv:2104.04473, fig. 4): min(p - rank - 1, micro_batches) forwards,
// then a forward and a backward in turn, then the remaining backwards.  Bubble (p-1)(F+B+W).
Schedule one_f_one_b(const PipelinePlace& place, int micro_batches);

// 1F1B over several chunks (the same paper, 2.2), in Megatron's order.  Bubble (p-1)(F+B+W)/chunks.
Schedule interleaved(const PipelinePlace& place, int micro_batches);
// The same for a step in which GPUs load kernels, which waits for all that a GPU has queued, and so
// for messages that the next rank has not taken yet.  Were several under way, ranks round the ring
// would each wait for the next: so the first group goes one micro-batch after another.
Schedule interleaved_loading(const PipelinePlace& place, int micro_batches);
// Exit::bad_config, in Megatron's words, for a group that is less than p or more than the
// micro-batches, or that leaves a remainder less than p.
void check_interleaving(const PipelinePlace& place, int micro_batches);
bool can_interleave(const PipelinePlace& place, int micro_batches);

// ZB-H1 (Qi et al.: arXiv:2401.10241, 2.2 and fig. 3): 1F1B in which rank r's weight gradients
// follow r backwards later, so that the stages before get their gradients earlier and what is left
// fills the end.  No rank holds more micro-batches than the first.  Bubble (p-1)(F+B-W).
Schedule zero_bubble(const PipelinePlace& place, int micro_batches);

// Forwards only, for evaluation.
Schedule forward_only(const PipelinePlace& place, int micro_batches);

int chunk_count(const Schedule& schedule);
int slot_count(const Schedule& schedule, int chunk);
bool defers_weight_gradients(const Schedule& schedule);

}  // namespace mt
