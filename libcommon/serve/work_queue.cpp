#include "serve/work_queue.h"

#include <utility>

namespace mt {

void WorkQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  news_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void WorkQueue::add(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
  }
  news_.notify_all();
}

void WorkQueue::run() {
  for (;;) {
    std::function<void()> next;
    {
      std::unique_lock lock(mutex_);
      news_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
      if (ends_) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    next();
  }
}

}  // namespace mt
