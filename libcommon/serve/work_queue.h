// WorkQueue: a thread that does what it is given, one after another, beside those that must not
// wait for it.  Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace mt {

class WorkQueue {
 public:
  WorkQueue() : thread_([this] { run(); }) {}
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;
  ~WorkQueue() { stop(); }
  void stop();  // what has not begun is forgotten

  void add(std::function<void()> work);  // which throws nothing

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<std::function<void()>> waiting_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace mt
