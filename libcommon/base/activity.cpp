#include "base/activity.h"

#include <cmath>

namespace mt {

void Activities::speak_through(const Log& log) {
  const std::lock_guard lock(mutex_);
  log_ = log;
}

void Activities::tell() const {
  const std::lock_guard lock(mutex_);
  for (const auto& tell : current_) tell();
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  if (current_.empty())
    log_.event("state", {{"seconds", std::round(seconds * 10) / 10}}, Log::Level::quiet);
}

Activity::Activity(const Log& log, std::function<void()> tell) : all_(log.settings().activities) {
  if (!all_) return;
  const std::lock_guard lock(all_->mutex_);
  here_ = all_->current_.insert(all_->current_.end(), std::move(tell));
}

Activity::~Activity() {
  if (!all_) return;
  const std::lock_guard lock(all_->mutex_);
  all_->current_.erase(here_);
}

}  // namespace mt
