#include "serve/work_queue.h"

#include <gtest/gtest.h>

#include <future>
#include <stdexcept>
#include <thread>

namespace mt {
namespace {

// Nothing begins while too much is held that was made before; what throws ends nothing.
TEST(WorkQueue, WaitsUntilWhatItMadeIsUsed) {
  WorkQueue queue(10);
  std::promise<void> first, second;
  WorkQueue::Held held;
  queue.add([] { throw std::runtime_error("nobody sees it"); });
  queue.add([&] {
    held = queue.hold(11);
    first.set_value();
  });
  queue.add([&] { second.set_value(); });
  first.get_future().wait();
  auto begun = second.get_future();
  EXPECT_EQ(begun.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  held.reset();
  begun.wait();
}

// At the end, work that runs is told so, and what it has not begun is gone, even while it waits.
TEST(WorkQueue, ForgetsWhatHasNotBegun) {
  WorkQueue queue(10);
  const auto mine = std::make_shared<bool>(false);
  std::promise<void> begun;
  queue.add([&] {
    begun.set_value();
    while (!queue.ends()) std::this_thread::yield();
  });
  queue.add([mine] { *mine = true; });
  begun.get_future().wait();
  queue.stop();
  queue.add([mine] { *mine = true; });
  EXPECT_EQ(mine.use_count(), 1);
  EXPECT_FALSE(*mine);
}

}  // namespace
}  // namespace mt
