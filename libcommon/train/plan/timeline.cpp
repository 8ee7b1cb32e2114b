#include "train/plan/timeline.h"

#include <algorithm>
#include <deque>

#include "base/error.h"

namespace mt {
namespace {

using Kind = Action::Kind;

// All ranks, each as far as it comes before it waits.
class Walk {
 public:
  Walk(const std::vector<Schedule>& schedules,
       const std::vector<std::vector<ActionSeconds>>& seconds)
      : schedules_(schedules), seconds_(seconds), ranks_(schedules.size()) {}

  Timeline run() {
    timeline_.ranks.resize(ranks_.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        while (timeline_.ranks[r].size() < schedules_[r].size() && act(r)) moved = true;
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (timeline_.ranks[r].size() < schedules_[r].size())
        fail(Exit::internal, "pipeline rank ", r, " waits for ever at action ",
             timeline_.ranks[r].size());
      timeline_.seconds = std::max(timeline_.seconds, ranks_[r].now);
    }
    return std::move(timeline_);
  }

 private:
  // From a rank to the next one in a direction.
  struct Channel {
    std::deque<double> arrivals;
    double free = 0;
  };
  struct Rank {
    double now = 0;
    Channel forwards = {}, backwards = {};
  };

  // False if the rank must wait for another's message first.
  bool act(std::size_t r) {
    Rank& rank = ranks_[r];
    const std::size_t i = timeline_.ranks[r].size(), p = ranks_.size();
    const Action& action = schedules_[r][i];
    const ActionSeconds& seconds = seconds_[r][i];
    double begin = rank.now;
    switch (action.kind) {
      case Kind::receive_forward:
        if (!receive(rank, ranks_[(r + p - 1) % p].forwards)) return false;
        break;
      case Kind::receive_backward:
        if (!receive(rank, ranks_[(r + 1) % p].backwards)) return false;
        break;
      case Kind::send_forward:
        send(rank, rank.forwards, seconds.transfer);
        break;
      case Kind::send_backward:
        send(rank, rank.backwards, seconds.transfer);
        break;
      case Kind::forward:
      case Kind::backward:
      case Kind::weight_gradients:
        break;
    }
    if (seconds.work > 0) begin = rank.now = std::max(rank.now, seconds.not_before);
    rank.now += seconds.work;
    timeline_.ranks[r].push_back({begin, rank.now});
    return true;
  }

  static bool receive(Rank& rank, Channel& channel) {
    if (channel.arrivals.empty()) return false;
    rank.now = std::max(rank.now, channel.arrivals.front());
    channel.arrivals.pop_front();
    return true;
  }
  static void send(const Rank& rank, Channel& channel, double transfer) {
    channel.free = std::max(channel.free, rank.now) + transfer;
    channel.arrivals.push_back(channel.free);
  }

  const std::vector<Schedule>& schedules_;
  const std::vector<std::vector<ActionSeconds>>& seconds_;
  std::vector<Rank> ranks_;
  Timeline timeline_;
};

}  // namespace

double Timeline::busy(std::size_t rank, const Schedule& schedule) const {
  double sum = 0;
  for (std::size_t i = 0; i < schedule.size(); ++i)
    if (computes(schedule[i])) sum += ranks[rank][i].end - ranks[rank][i].begin;
  return sum;
}

double Timeline::end(std::size_t rank) const {
  return ranks[rank].empty() ? 0 : ranks[rank].back().end;
}

Timeline make_timeline(const std::vector<Schedule>& schedules,
                       const std::vector<std::vector<ActionSeconds>>& seconds) {
  return Walk(schedules, seconds).run();
}

double bubble_seconds(const BubbleOf& of) {
  const double filling = of.ranks - 1;
  if (of.interleaved) return filling * of.micro_batch / of.chunks;
  if (of.zero_bubble) return filling * (of.micro_batch - 2 * of.weight_gradients);
  return filling * of.micro_batch;
}

}  // namespace mt
