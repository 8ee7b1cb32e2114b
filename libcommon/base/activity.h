// Activities: what a program is at, told when somebody asks by USR2.  Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

#include "base/log.h"

namespace mt {

class Activities {
 public:
  void speak_through(const Log& log);
  // Each activity tells of itself; where there is none, an event says how long the program has run.
  void tell() const;

 private:
  friend class Activity;
  using Clock = std::chrono::steady_clock;
  mutable std::mutex mutex_;
  Log log_;
  std::list<std::function<void()>> current_;
  Clock::time_point start_ = Clock::now();
};

// One of them, while it lives.  `tell` writes events to a log; it is called by another thread.
class Activity {
 public:
  Activity(const Log& log, std::function<void()> tell);
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;
  ~Activity();

 private:
  std::shared_ptr<Activities> all_;  // null where nobody can ask
  std::list<std::function<void()>>::iterator here_;
};

}  // namespace mt
