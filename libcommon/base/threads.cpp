#include "base/threads.h"

#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <exception>
#include <vector>

namespace mt {

void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& body) {
  if (count == 1) return body(0);
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

int available_cores() { return tbb::info::default_concurrency(); }

}  // namespace mt
