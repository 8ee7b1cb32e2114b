// PipelineWalk: all ranks of a pipeline at once, with blocking receives and no device, for tests of
// schedules.  Checks what every action finds, and measures how long the whole takes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "train/run/schedule.h"

namespace mt {

// Of one micro-batch in one chunk; messages take no time.
struct WorkTimes {
  std::int64_t forward = 1, backward = 1, weight_gradients = 1;
};

class PipelineWalk {
 public:
  // Sends are buffered; or they are complete only when taken, and are waited for where the executor
  // does that: before the slot's next message or micro-batch; or also before a chunk's first work
  // of each kind, as a GPU does that loads its kernels.
  enum class Sends : std::uint8_t { buffered, taken, taken_before_loading };

  struct What {
    int chunks = 1, micro_batches = 1;
    bool training = true;
    Sends sends = Sends::buffered;
    WorkTimes times = {};
  };
  PipelineWalk(const std::vector<Schedule>& ranks, const What& what)
      : what_(what), chunks_(what.chunks), micro_batches_(what.micro_batches) {
    for (std::size_t r = 0; r < ranks.size(); ++r)
      ranks_.push_back({.list = &ranks[r],
                        .defers = defers_weight_gradients(ranks[r]),
                        .slots = slots_of(ranks[r]),
                        .states = std::vector<State>(
                            static_cast<std::size_t>(chunks_ * micro_batches_), State::none)});
  }

  // What is wrong, or "": every micro-batch has gone through every chunk, forwards and, in
  // training, backwards, and every message was taken.
  std::string run() {
    for (bool moved = true; moved && wrong_.empty();) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        while (wrong_.empty() && ranks_[r].next < ranks_[r].list->size() && act(r)) {
          ++ranks_[r].next;
          moved = true;
        }
    }
    for (std::size_t r = 0; r < ranks_.size() && wrong_.empty(); ++r) check_end(r);
    return wrong_;
  }

  std::int64_t time() const {  // of the last rank to end
    std::int64_t last = 0;
    for (const Rank& rank : ranks_) last = std::max(last, rank.time);
    return last;
  }

 private:
  // Of a micro-batch in a chunk.
  enum class State : std::uint8_t { none, received, forwarded, answered, backwarded, done };
  struct Message {
    int micro_batch, chunk;  // of the receiver
    std::int64_t time;
  };
  struct Channel {  // from a rank to the next in one direction
    std::vector<Message> messages;
    std::size_t taken = 0;
  };
  struct Sent {
    Channel* channel = nullptr;
    std::size_t number = 0;
  };
  struct Slot {
    int micro_batch = -1;
    Sent sent = {};
  };
  struct Rank {
    const Schedule* list;
    bool defers;
    std::vector<std::vector<Slot>> slots;  // of each chunk
    std::vector<State> states;             // of each chunk's micro-batches
    Channel forwards = {}, backwards = {};
    std::size_t next = 0;
    std::int64_t time = 0;
    std::set<std::pair<Action::Kind, int>> loaded = {};  // and the chunk
  };

  void check_end(std::size_t r) {
    const Rank& rank = ranks_[r];
    if (rank.next < rank.list->size())
      wrong_ = concat("rank ", r, " waits for ever at action ", rank.next);
    else if (std::ranges::count(rank.states, State::done) != std::ssize(rank.states))
      wrong_ = concat("rank ", r, " has not done everything");
    else if (channel_to(r, true).taken < channel_to(r, true).messages.size() ||
             channel_to(r, false).taken < channel_to(r, false).messages.size())
      wrong_ = concat("a message to rank ", r, " was not taken");
  }

  std::vector<std::vector<Slot>> slots_of(const Schedule& schedule) const {
    std::vector<std::vector<Slot>> slots;
    for (int chunk = 0; chunk < chunks_; ++chunk)
      slots.emplace_back(static_cast<std::size_t>(slot_count(schedule, chunk)));
    return slots;
  }

  bool fail_at(std::size_t r, const Action& a, const char* what) {
    wrong_ = concat("rank ", r, ", action ", ranks_[r].next, ", micro-batch ", a.micro_batch,
                    ", chunk ", a.chunk, ": ", what);
    return false;
  }

  State& state(std::size_t r, const Action& a) {
    return ranks_[r].states[static_cast<std::size_t>(a.chunk * micro_batches_ + a.micro_batch)];
  }

  bool is_taken(const Sent& sent) const {
    return what_.sends == Sends::buffered || sent.channel == nullptr ||
           sent.number < sent.channel->taken;
  }

  bool can_load(Rank& rank, const Action& a) {
    if (what_.sends != Sends::taken_before_loading || !computes(a)) return true;
    if (!rank.loaded.contains({a.kind, a.chunk}) &&
        (has_untaken(rank.forwards) || has_untaken(rank.backwards)))
      return false;
    rank.loaded.insert({a.kind, a.chunk});
    return true;
  }
  static bool has_untaken(const Channel& channel) {
    return channel.taken < channel.messages.size();
  }

  // The slot passes to a new micro-batch.
  bool begin(std::size_t r, const Action& a, Slot& slot, State next) {
    if (!is_taken(slot.sent)) return false;
    if (slot.micro_batch >= 0) return fail_at(r, a, "the slot is not free");
    if (state(r, a) != State::none) return fail_at(r, a, "comes a second time");
    slot.micro_batch = a.micro_batch;
    state(r, a) = next;
    return true;
  }

  bool pass(std::size_t r, const Action& a, Slot& slot, State from, State to) {
    if (slot.micro_batch != a.micro_batch) return fail_at(r, a, "is not in its slot");
    if (state(r, a) != from) return fail_at(r, a, "is not ready for this action");
    state(r, a) = to;
    if (to == State::done) slot.micro_batch = -1;
    return true;
  }

  // To the rank after or before in the ring, whose chunk is the same, or beyond an end the next or
  // the one before.
  bool post(std::size_t r, const Action& a, Slot& slot, bool forwards) {
    if (!is_taken(slot.sent)) return false;
    Channel& channel = forwards ? ranks_[r].forwards : ranks_[r].backwards;
    const std::size_t last = ranks_.size() - 1;
    const int chunk = a.chunk + (forwards ? (r == last ? 1 : 0) : (r == 0 ? -1 : 0));
    slot.sent = {&channel, channel.messages.size()};
    channel.messages.push_back({a.micro_batch, chunk, ranks_[r].time});
    return true;
  }

  bool is_there(std::size_t r, bool forwards) { return waiting(r, forwards) != nullptr; }

  bool take(std::size_t r, const Action& a, bool forwards) {
    const Message* message = waiting(r, forwards);
    if (message->micro_batch != a.micro_batch || message->chunk != a.chunk)
      return fail_at(r, a, "another's message came");
    ranks_[r].time = std::max(ranks_[r].time, message->time);
    ++channel_to(r, forwards).taken;
    return true;
  }

  Channel& channel_to(std::size_t r, bool forwards) {
    const std::size_t p = ranks_.size();
    return forwards ? ranks_[(r + p - 1) % p].forwards : ranks_[(r + 1) % p].backwards;
  }
  const Message* waiting(std::size_t r, bool forwards) {
    const Channel& channel = channel_to(r, forwards);
    return channel.taken < channel.messages.size() ? &channel.messages[channel.taken] : nullptr;
  }

  bool act(std::size_t r) {
    Rank& rank = ranks_[r];
    const Action& a = (*rank.list)[rank.next];
    Slot& slot = rank.slots[static_cast<std::size_t>(a.chunk)][static_cast<std::size_t>(a.slot)];
    if (!can_load(rank, a)) return false;
    const bool first = r == 0 && a.chunk == 0;
    const bool last = r + 1 == ranks_.size() && a.chunk + 1 == chunks_;
    switch (a.kind) {
      case Action::Kind::receive_forward:
        return is_there(r, true) && begin(r, a, slot, State::received) && take(r, a, true);
      case Action::Kind::forward:
        if (first && !begin(r, a, slot, State::received)) return false;
        rank.time += what_.times.forward;
        return pass(r, a, slot, State::received,
                    !what_.training ? State::done
                    : last          ? State::answered
                                    : State::forwarded);
      case Action::Kind::send_forward:
        return post(r, a, slot, true);
      case Action::Kind::receive_backward:
        return is_there(r, false) && take(r, a, false) &&
               pass(r, a, slot, State::forwarded, State::answered);
      case Action::Kind::backward:
        rank.time += what_.times.backward + (rank.defers ? 0 : what_.times.weight_gradients);
        return pass(r, a, slot, State::answered, State::backwarded) &&
               (rank.defers || pass(r, a, slot, State::backwarded, State::done));
      case Action::Kind::send_backward:
        return post(r, a, slot, false);
      case Action::Kind::weight_gradients:
        rank.time += what_.times.weight_gradients;
        return pass(r, a, slot, State::backwarded, State::done);
    }
    return false;
  }

  What what_;
  int chunks_, micro_batches_;
  std::vector<Rank> ranks_;
  std::string wrong_;
};

}  // namespace mt
