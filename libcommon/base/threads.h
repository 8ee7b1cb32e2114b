// Threads: loops over fixed tiles on oneTBB.  What is computed never depends on how many threads
// run it, because the tiles depend on the problem alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace mt {

// Calls body(i) for i in [0, count), several at a time, in the calling thread's arena.  While a
// thread waits for the others it begins nothing else.
void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& body);

// parallel_for() in which every body is called, and of several errors that of the smallest i is
// thrown.
void parallel_for_ordered_errors(std::int64_t count, const std::function<void(std::int64_t)>& body);

// A set of worker threads: run() calls `body` so that parallel_for() inside it uses at most
// `threads` of them.  Each CPU rank owns one.
class Workers {
 public:
  explicit Workers(int threads);  // as worker_threads() says
  ~Workers();
  void run(const std::function<void()>& body);
  int threads() const { return threads_; }

 private:
  struct State;
  int threads_;
  std::unique_ptr<State> state_;
};

// How many threads can work at once: one a core that the process may use, and no more than limits
// on its address space and data leave room for, and those on processes let start, when it is first
// asked.
int available_cores();

// How many threads to start when `asked` are wanted: 0 means one a core, and more than that would
// only take turns.
int worker_threads(int asked);

}  // namespace mt
