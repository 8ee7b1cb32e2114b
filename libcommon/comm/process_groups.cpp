#include "comm/process_groups.h"

#include <chrono>
#include <optional>

namespace mt {

using Clock = Stream::Clock;

std::string ProcessGroups::Begun::text() const {
  const std::string size = elements > 0 ? concat(" of ", elements, " ", name_of(dtype)) : "";
  return concat(operation, size, " among ", ranks);
}

ProcessGroups::ProcessGroups(Rendezvous& ranks, Stream& stream) : compute(stream), ranks_(ranks) {
  ranks.follow([this] { return progress(); });
}

void ProcessGroups::add(const Begun* group) {
  const std::lock_guard lock(mutex_);
  groups_.push_back(group);
}

void ProcessGroups::remove(const Begun* group) {
  const std::lock_guard lock(mutex_);
  std::erase(groups_, group);
  if (latest_ == group) latest_ = nullptr;
}

void ProcessGroups::note(Begun* group, const char* operation, std::int64_t elements, DType dtype) {
  const std::lock_guard lock(mutex_);
  ++group->count;
  group->operation = operation;
  group->elements = elements;
  group->dtype = dtype;
  latest_ = group;
}

Rendezvous::Progress ProcessGroups::progress() {
  Rendezvous::Progress progress;
  std::optional<Clock::time_point> since = compute.waits_since();
  if (const Clock::rep calls = calls_since_; calls != 0 && !since)
    since = Clock::time_point(Clock::duration(calls));
  if (since)
    progress.waits = std::chrono::duration_cast<Rendezvous::Milliseconds>(Clock::now() - *since);
  const std::lock_guard lock(mutex_);
  if (latest_ != nullptr)
    progress.latest = concat("operation ", latest_->count, " of its group, ", latest_->text());
  for (const Begun* one : groups_) progress.groups.push_back({one->group, one->count, one->text()});
  return progress;
}

}  // namespace mt
