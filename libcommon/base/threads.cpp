#include "base/threads.h"

#include <sys/resource.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <latch>
#include <system_error>
#include <thread>
#include <vector>

namespace mt {

// What a thread of TBB maps: its stack, what glibc's malloc() sets aside for it, and of that what a
// worker of ours may come to write.
static constexpr std::uint64_t kMiB = 1 << 20, kStack = 4 * kMiB, kArena = 64 * kMiB,
                               kWork = 8 * kMiB;

// How many threads of TBB the process's limits have room for, with half of it left for their work.
static int threads_within_limits() {
  std::uint64_t mapped = 0, skipped, data = 0;  // pages, as proc(5) has them
  std::ifstream("/proc/self/statm") >> mapped >> skipped >> skipped >> skipped >> skipped >> data;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::uint64_t threads = 1 << 16;
  const auto within = [&](auto kind, std::uint64_t used, std::uint64_t thread) {
    rlimit limit = {};
    ::getrlimit(kind, &limit);
    if (limit.rlim_cur == RLIM_INFINITY) return;
    const std::uint64_t room = limit.rlim_cur > used ? limit.rlim_cur - used : 0;
    threads = std::min(threads, room / 2 / thread);
  };
  within(RLIMIT_AS, mapped * page, kStack + kArena);
  within(RLIMIT_DATA, data * page, kStack + kWork);
  return static_cast<int>(threads) + 1;  // the one that asks is there
}

// How many threads can be started now, of so many, which limits on processes decide that nobody can
// ask for; of fewer half, as other threads are to come.
static int threads_that_start(int wanted) {
  std::latch all_are_there(1);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(wanted));
  try {
    while (std::ssize(threads) < wanted) threads.emplace_back([&] { all_are_there.wait(); });
  } catch (const std::system_error&) {
  }
  all_are_there.count_down();
  for (std::thread& thread : threads) thread.join();
  const int started = static_cast<int>(threads.size());
  return started < wanted ? started / 2 : started;
}

// A thread that cannot be started ends the program, as it is one of TBB's own that throws.
static int threads_to_use() {
  const int within = std::min(tbb::info::default_concurrency(), threads_within_limits());
  return 1 + threads_that_start(within - 1);
}

int available_cores() {
  static const int cores = threads_to_use();
  static const tbb::global_control stack(tbb::global_control::thread_stack_size, kStack);
  static const tbb::global_control most(tbb::global_control::max_allowed_parallelism,
                                        static_cast<std::size_t>(cores));
  return cores;
}

void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& body) {
  if (count == 1) return body(0);
  available_cores();  // TBB starts no more
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(
        tbb::blocked_range<std::int64_t>(0, count, 1),
        [&](const tbb::blocked_range<std::int64_t>& range) {
          for (std::int64_t i = range.begin(); i < range.end(); ++i) body(i);
        },
        tbb::simple_partitioner());
  });
}

void parallel_for_ordered_errors(std::int64_t count,
                                 const std::function<void(std::int64_t)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(count));
  parallel_for(count, [&](std::int64_t i) {
    try {
      body(i);
    } catch (...) {
      errors[static_cast<std::size_t>(i)] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

struct Workers::State {
  tbb::task_arena arena;
};

Workers::Workers(int threads)
    : threads_(worker_threads(threads)),
      state_(std::make_unique<State>(State{tbb::task_arena(threads_)})) {}
Workers::~Workers() = default;

void Workers::run(const std::function<void()>& body) { state_->arena.execute(body); }

int worker_threads(int asked) {
  return asked > 0 ? std::min(asked, available_cores()) : available_cores();
}

}  // namespace mt
