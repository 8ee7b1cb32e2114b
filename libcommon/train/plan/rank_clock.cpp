#include "train/plan/rank_clock.h"

#include <algorithm>
#include <numeric>

namespace mt {

double RankClock::Part::seconds() const {
  return launch + std::accumulate(families.begin(), families.end(), 0.0);
}

RankClock::RankClock(const Machine& machine, const AttentionKind& attention, const Stream& stream)
    : machine_(machine), attention_(attention), stream_(stream), counted_(stream.family_costs()) {}

void RankClock::begin_part(bool backward) {
  advance();
  parts_.emplace_back();
  part_ = now_;
  backward_ = backward;
}

const std::vector<RankClock::Part>& RankClock::end() {
  advance();
  return parts_;
}

void RankClock::begin_step() {
  advance();
  parts_.clear();
  step_ = part_ = now_;
  for (Flight& flight : flights_) flight.left = true;
  for (GroupMessages& m : messages_) m.count = m.bytes = m.seconds = m.waited = 0;
}

void RankClock::advance() {
  if (parts_.empty()) parts_.emplace_back();
  Part& part = parts_.back();
  PerFamily<Cost> work = stream_.family_costs();
  std::swap(work, counted_);
  bool any = false;
  for (std::size_t i = 0; i < kFamilies; ++i) {
    work[i] = counted_[i] - work[i];
    any = any || work[i].flops > 0 || work[i].bytes > 0;
  }
  if (!any) return;
  if (part.launch == 0) {
    part.launch = machine_.launch;
    now_ += part.launch;
  }
  const PerFamily<double> seconds = machine_.seconds(work, attention_, backward_);
  for (std::size_t i = 0; i < kFamilies; ++i) {
    part.families[i] += seconds[i];
    now_ += seconds[i];
  }
}

std::size_t RankClock::kind_of(const Message& message) {
  const bool within_node = message.hosts == 1;
  const auto found = std::ranges::find_if(messages_, [&](const GroupMessages& m) {
    return m.group == message.group && m.collective == message.collective &&
           m.ranks == message.ranks && m.within_node == within_node;
  });
  if (found != messages_.end()) return static_cast<std::size_t>(found - messages_.begin());
  messages_.push_back({.group = message.group,
                       .collective = message.collective,
                       .ranks = message.ranks,
                       .within_node = within_node});
  return messages_.size() - 1;
}

std::size_t RankClock::begin(const Message& message) {
  advance();
  const double seconds = machine_.seconds(message);
  const std::size_t kind = kind_of(message);
  GroupMessages& messages = messages_[kind];
  messages.count += 1;
  messages.bytes += message.bytes;
  messages.seconds += seconds;
  Flight& flight = flights_.emplace_back(Flight{.kind = kind, .arrival = now_});
  if (message.group == "pipeline") {
    parts_.back().transfer += seconds;
  } else {
    double& free = free_[message.group];
    free = std::max(free, now_) + seconds;
    flight.arrival = free;
  }
  return flights_.size() - 1;
}

void RankClock::wait(std::size_t number) {
  advance();
  const Flight& flight = flights_[number];
  if (flight.left) {
    double& not_before = parts_.back().not_before;
    not_before = std::max(not_before, flight.arrival - step_ - (now_ - part_));
    return;
  }
  const double seconds = std::max(0.0, flight.arrival - now_);
  parts_.back().families[Family::communication] += seconds;
  messages_[flight.kind].waited += seconds;
  now_ += seconds;
}

}  // namespace mt
