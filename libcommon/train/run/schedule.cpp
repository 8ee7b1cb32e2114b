#include "train/run/schedule.h"

#include <algorithm>
#include <deque>
#include <map>

#include "base/error.h"

namespace mt {
namespace {

using Kind = Action::Kind;

// Adds messages to the work, and gives each micro-batch a slot.
//
// A slot's last message, the gradient for the stage before, is taken when that stage gets to it.
// Between chunks this is only once the others of the group have gone back; so that nobody waits for
// that, as many free slots are left alone as a group has more micro-batches than there are ranks.
class Builder {
 public:
  explicit Builder(const PipelinePlace& place, bool defers = false)
      : place_(place),
        defers_(defers),
        left_alone_(place.chunks == 1 ? 0 : static_cast<std::size_t>(place.group - place.ranks)),
        chunks_(static_cast<std::size_t>(place.chunks)) {}

  void forward(int micro_batch, int chunk = 0) {
    const int slot = take_slot(micro_batch, chunk);
    if (!place_.is_first(chunk)) list_.push_back({Kind::receive_forward, micro_batch, chunk, slot});
    list_.push_back({Kind::forward, micro_batch, chunk, slot});
    if (!place_.is_last(chunk)) list_.push_back({Kind::send_forward, micro_batch, chunk, slot});
  }
  void backward(int micro_batch, int chunk = 0) {
    const int slot = chunks_[static_cast<std::size_t>(chunk)].slots.at(micro_batch);
    if (!place_.is_last(chunk)) list_.push_back({Kind::receive_backward, micro_batch, chunk, slot});
    list_.push_back({Kind::backward, micro_batch, chunk, slot});
    if (!place_.is_first(chunk)) list_.push_back({Kind::send_backward, micro_batch, chunk, slot});
    if (!defers_) leave_slot(micro_batch, chunk);
  }
  void weight_gradients(int micro_batch) {
    list_.push_back({Kind::weight_gradients, micro_batch, 0, chunks_[0].slots.at(micro_batch)});
    leave_slot(micro_batch, 0);
  }
  Schedule take() { return std::move(list_); }

 private:
  struct Chunk {
    std::map<int, int> slots;  // of micro-batches in flight
    std::deque<int> free;      // those longest free first
    int count = 0;
  };
  int take_slot(int micro_batch, int chunk) {
    Chunk& c = chunks_[static_cast<std::size_t>(chunk)];
    if (c.free.size() <= left_alone_) return c.slots[micro_batch] = c.count++;
    const int slot = c.free.front();
    c.free.pop_front();
    return c.slots[micro_batch] = slot;
  }
  void leave_slot(int micro_batch, int chunk) {
    Chunk& c = chunks_[static_cast<std::size_t>(chunk)];
    c.free.push_back(c.slots.at(micro_batch));
    c.slots.erase(micro_batch);
  }

  PipelinePlace place_;
  bool defers_;
  std::size_t left_alone_;
  std::vector<Chunk> chunks_;
  Schedule list_;
};

struct Unit {
  int micro_batch, chunk;
};

// What an interleaved schedule of the micro-batches from `first` on goes forward through; with the
// chunks in reverse, backward.
std::vector<Unit> units(const PipelinePlace& place, int micro_batches, int first = 0) {
  std::vector<Unit> list;
  for (int begin = first; begin < micro_batches; begin += place.group)
    for (int chunk = 0; chunk < place.chunks; ++chunk)
      for (int i = begin; i < std::min(begin + place.group, micro_batches); ++i)
        list.push_back({i, chunk});
  return list;
}

void interleave(Builder& builder, const PipelinePlace& place, int micro_batches, int first = 0) {
  const std::vector<Unit> order = units(place, micro_batches, first);
  const int all = static_cast<int>(order.size());
  const int warmup =
      std::min(2 * (place.ranks - place.rank - 1) + (place.chunks - 1) * place.group, all);
  const auto forward = [&](int k) {
    const Unit& unit = order[static_cast<std::size_t>(k)];
    builder.forward(unit.micro_batch, unit.chunk);
  };
  for (int k = 0; k < warmup; ++k) forward(k);
  for (int k = 0; k < all; ++k) {
    if (warmup + k < all) forward(warmup + k);
    const Unit& unit = order[static_cast<std::size_t>(k)];
    builder.backward(unit.micro_batch, place.chunks - 1 - unit.chunk);
  }
}

}  // namespace

Schedule gpipe(const PipelinePlace& place, int micro_batches) {
  Builder builder(place);
  for (int i = 0; i < micro_batches; ++i) builder.forward(i);
  for (int i = 0; i < micro_batches; ++i) builder.backward(i);
  return builder.take();
}

Schedule one_f_one_b(const PipelinePlace& place, int micro_batches) {
  const int warmup = std::min(place.ranks - place.rank - 1, micro_batches);
  Builder builder(place);
  for (int i = 0; i < warmup; ++i) builder.forward(i);
  for (int i = 0; i < micro_batches; ++i) {
    if (warmup + i < micro_batches) builder.forward(warmup + i);
    builder.backward(i);
  }
  return builder.take();
}

bool can_interleave(const PipelinePlace& place, int micro_batches) {
  const int rest = micro_batches % place.group;
  return place.group >= place.ranks && place.group <= micro_batches &&
         (rest == 0 || rest >= place.ranks);
}

void check_interleaving(const PipelinePlace& place, int micro_batches) {
  if (place.group < place.ranks || place.group > micro_batches)
    fail(Exit::bad_config,
         "The number of contiguous micro-batches in a virtual pipeline stage should range in [PP=",
         place.ranks, " , M=", micro_batches, "]");
  if (!can_interleave(place, micro_batches))
    fail(Exit::bad_config,
         "The remainder of M (the total micro-batches) divided by N (number of contiguous "
         "micro-batches in a virtual pipeline stage) should be 0, or larger than or equal to the "
         "pipeline-parallel size, but it is ",
         micro_batches % place.group,
         ". Otherwise, it introduces dependency bubbles in the pipeline and reduces throughput.");
}

Schedule interleaved(const PipelinePlace& place, int micro_batches) {
  check_interleaving(place, micro_batches);
  Builder builder(place);
  interleave(builder, place, micro_batches);
  return builder.take();
}

Schedule interleaved_loading(const PipelinePlace& place, int micro_batches) {
  check_interleaving(place, micro_batches);
  Builder builder(place);
  for (int i = 0; i < place.group; ++i) {
    for (int chunk = 0; chunk < place.chunks; ++chunk) builder.forward(i, chunk);
    for (int chunk = place.chunks - 1; chunk >= 0; --chunk) builder.backward(i, chunk);
  }
  interleave(builder, place, micro_batches, place.group);
  return builder.take();
}

Schedule zero_bubble(const PipelinePlace& place, int micro_batches) {
  const int late = place.rank;  // backwards before a micro-batch's weight gradients
  if (late == 0) return one_f_one_b(place, micro_batches);
  const int warmup = std::min(place.ranks - place.rank - 1, micro_batches);
  Builder builder(place, true);
  for (int i = 0; i < warmup; ++i) builder.forward(i);
  for (int i = 0; i < micro_batches; ++i) {
    if (warmup + i < micro_batches) builder.forward(warmup + i);
    builder.backward(i);
    if (i >= late) builder.weight_gradients(i - late);
  }
  for (int i = std::max(0, micro_batches - late); i < micro_batches; ++i)
    builder.weight_gradients(i);
  return builder.take();
}

// A micro-batch leaves its slot with its message, which is taken when the rank after gets to it:
// between chunks the first rank does that once it has been through its group.
Schedule forward_only(const PipelinePlace& place, int micro_batches) {
  const int slots = place.chunks == 1 ? 1 : std::max(1, place.group - place.ranks + 1);
  Schedule list;
  for (const auto& [i, chunk] : units(place, micro_batches)) {
    const int slot = i % slots;
    if (!place.is_first(chunk)) list.push_back({Kind::receive_forward, i, chunk, slot});
    list.push_back({Kind::forward, i, chunk, slot});
    if (!place.is_last(chunk)) list.push_back({Kind::send_forward, i, chunk, slot});
  }
  return list;
}

int chunk_count(const Schedule& schedule) {
  int chunks = 0;
  for (const Action& action : schedule) chunks = std::max(chunks, action.chunk + 1);
  return chunks;
}

int slot_count(const Schedule& schedule, int chunk) {
  int slots = 0;
  for (const Action& action : schedule)
    if (action.chunk == chunk) slots = std::max(slots, action.slot + 1);
  return slots;
}

bool computes(const Action& action) {
  return action.kind == Kind::forward || action.kind == Kind::backward ||
         action.kind == Kind::weight_gradients;
}

bool defers_weight_gradients(const Schedule& schedule) {
  return std::ranges::any_of(
      schedule, [](const Action& action) { return action.kind == Kind::weight_gradients; });
}

}  // namespace mt
