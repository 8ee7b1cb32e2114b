#include "serve/work_queue.h"

#include <utility>

namespace mt {

void WorkQueue::stop() {
  std::deque<std::function<void()>> left;  // ends behind the lock
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    left.swap(waiting_);
  }
  news_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool WorkQueue::ends() const {
  const std::lock_guard lock(mutex_);
  return ends_;
}

WorkQueue::Held WorkQueue::hold(std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    held_ += bytes;
  }
  return {this, [bytes](WorkQueue* queue) {
            {
              const std::lock_guard lock(queue->mutex_);
              queue->held_ -= bytes;
            }
            queue->news_.notify_all();
          }};
}

void WorkQueue::add(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (ends_) return;
    waiting_.push_back(std::move(work));
  }
  news_.notify_all();
}

void WorkQueue::run() {
  for (;;) {
    std::function<void()> next;
    {
      std::unique_lock lock(mutex_);
      news_.wait(lock, [&] { return ends_ || (!waiting_.empty() && held_ <= most_held_); });
      if (ends_) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    try {
      next();
    } catch (...) {
    }
  }
}

}  // namespace mt
