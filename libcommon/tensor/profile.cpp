#include "tensor/profile.h"

#include <cassert>
#include <numeric>

namespace mt {

Profile::Profile(StreamHandle stream) : stream_(stream) { mark(kWaiting); }

Profile::~Profile() {
  for (const Mark& mark : marks_)
    if (mark.event != nullptr) device::destroy_event(mark.event);
  for (const EventHandle event : unused_) device::destroy_event(event);
}

void Profile::begin(Family family) {
  begun_.push_back(static_cast<std::size_t>(family));
  mark(begun_.back());
}

void Profile::end() {
  assert(begun_.size() > 1);
  begun_.pop_back();
  mark(begun_.back());
}

void Profile::mark(std::size_t then) {
  if (stream_ == nullptr) {
    marks_.push_back({.then = then, .time = Clock::now()});
    return;
  }
  if (unused_.empty()) unused_.push_back(device::make_timer());
  marks_.push_back({.then = then, .event = unused_.back()});
  unused_.pop_back();
  device::record(marks_.back().event, stream_);
}

double Profile::between(const Mark& first, const Mark& second) const {
  if (stream_ == nullptr) return std::chrono::duration<double>(second.time - first.time).count();
  return device::seconds_between(first.event, second.event);
}

double Profile::Seconds::total() const {
  return std::accumulate(families.begin(), families.end(), waiting);
}

Profile::Seconds Profile::stop() {
  mark(begun_.back());
  if (stream_ != nullptr) device::wait(marks_.back().event);
  Seconds seconds;
  for (std::size_t i = 0; i + 1 < marks_.size(); ++i) {
    const std::size_t then = marks_[i].then;
    double& sum = then == kWaiting ? seconds.waiting : seconds.families[static_cast<Family>(then)];
    sum += between(marks_[i], marks_[i + 1]);
    if (marks_[i].event != nullptr) unused_.push_back(marks_[i].event);
  }
  marks_ = {marks_.back()};
  return seconds;
}

}  // namespace mt
