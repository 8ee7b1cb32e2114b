// WorkQueue: a thread that does what it is given, one after another, beside those that must not
// wait for it.  Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace mt {

class WorkQueue {
 public:
  // Nothing begins while more than so many bytes are held.
  explicit WorkQueue(std::size_t most_held) : most_held_(most_held), thread_([this] { run(); }) {}
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;
  ~WorkQueue() { stop(); }
  void stop();        // what has not begun is forgotten, and what has is waited for
  bool ends() const;  // so that what has begun may end early

  // What it throws is lost: it tells itself who waits for it.
  void add(std::function<void()> work);

  // So many bytes that work has made are held until nobody has what this returns any more, which is
  // before the queue's end.
  using Held = std::shared_ptr<void>;
  Held hold(std::size_t bytes);

 private:
  void run();

  const std::size_t most_held_;
  mutable std::mutex mutex_;  // of the next
  std::condition_variable news_;
  std::deque<std::function<void()>> waiting_;
  std::size_t held_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace mt
