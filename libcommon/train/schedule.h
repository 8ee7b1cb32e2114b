// Schedules as data (DESIGN D8): what one pipeline stage does in a step, in order.  Pure functions
// of the layout; one executor runs the list, and tests walk all stages of all schedules without a
// device.
//
// A micro-batch's activations live in a slot from its forward to its backward; `slot` says which,
// so the number of slots, and with it the memory, is known from the list.
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
    weight_gradients,  // those that backward has queued
  };
  Kind kind;
  int micro_batch = 0, slot = 0;
  friend bool operator==(const Action&, const Action&) = default;
};

using Schedule = std::vector<Action>;

// 1F1B (Narayanan et al.: arXiv:2104.04473, fig. 4): min(stages - stage - 1, micro_batches)
// forwards, then a forward and a backward in turn, then the remaining backwards.  One stage needs
// no messages.
Schedule one_f_one_b(int stage, int stages, int micro_batches);

// Forwards only, for evaluation; every micro-batch in slot 0.
Schedule forward_only(int stage, int stages, int micro_batches);

int slot_count(const Schedule& schedule);

}  // namespace mt
