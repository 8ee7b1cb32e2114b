#include "train/schedule.h"

#include <algorithm>

namespace mt {
namespace {

using Kind = Action::Kind;

struct Builder {
  int stage, stages, slots;
  Schedule list;

  void forward(int micro_batch) {
    const int slot = micro_batch % slots;
    if (stage > 0) list.push_back({Kind::receive_forward, micro_batch, slot});
    list.push_back({Kind::forward, micro_batch, slot});
    if (stage < stages - 1) list.push_back({Kind::send_forward, micro_batch, slot});
  }
  void backward(int micro_batch) {
    const int slot = micro_batch % slots;
    if (stage < stages - 1) list.push_back({Kind::receive_backward, micro_batch, slot});
    list.push_back({Kind::backward, micro_batch, slot});
    if (stage > 0) list.push_back({Kind::send_backward, micro_batch, slot});
  }
};

}  // namespace

Schedule one_f_one_b(int stage, int stages, int micro_batches) {
  const int warmup = std::min(stages - stage - 1, micro_batches);
  Builder builder{stage, stages, std::min(warmup + 1, micro_batches), {}};
  for (int i = 0; i < warmup; ++i) builder.forward(i);
  for (int i = warmup; i < micro_batches; ++i) {
    builder.forward(i);
    builder.backward(i - warmup);
  }
  for (int i = micro_batches - warmup; i < micro_batches; ++i) builder.backward(i);
  return builder.list;
}

Schedule forward_only(int stage, int stages, int micro_batches) {
  Builder builder{stage, stages, 1, {}};
  for (int i = 0; i < micro_batches; ++i) builder.forward(i);
  return builder.list;
}

int slot_count(const Schedule& schedule) {
  int slots = 0;
  for (const Action& action : schedule) slots = std::max(slots, action.slot + 1);
  return slots;
}

}  // namespace mt
