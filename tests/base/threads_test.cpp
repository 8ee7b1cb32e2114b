// Threads: no more than the machine's limits have room for.
#include "base/threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace mt {
namespace {

// In a process of its own, whose address space may grow by `bytes`: exits with how many work at
// once.
[[noreturn]] void count_within(std::uint64_t bytes) {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * 4096 + bytes;
  const rlimit limit = {most, most};
  ::setrlimit(RLIMIT_AS, &limit);
  const int cores = available_cores();
  std::atomic<int> sum = 0;
  parallel_for(100, [&](std::int64_t i) { sum += static_cast<int>(i); });
  std::_Exit(sum == 4950 ? cores : 99);
}

// In a process of another user, who may have no thread more.
[[noreturn]] void count_without_threads() {
  constexpr uid_t kNobody = 65534;
  const rlimit limit = {1, 1};
  if (::setuid(kNobody) != 0 && ::getuid() == 0) std::_Exit(98);
  ::setrlimit(RLIMIT_NPROC, &limit);
  std::_Exit(available_cores());
}

TEST(Threads, AreNoMoreThanStart) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(count_without_threads(), testing::ExitedWithCode(1), "");
}

TEST(Threads, AreNoMoreThanTheAddressSpaceHasRoomFor) {
#if defined(MT_SANITIZE_ADDRESSES) || defined(MT_SANITIZE_THREADS)
  GTEST_SKIP() << "a sanitizer's shadow takes all addresses";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(count_within(std::uint64_t{100} << 20), testing::ExitedWithCode(1), "");
  EXPECT_EXIT(
      count_within(std::uint64_t{150} << 20),
      testing::ExitedWithCode(std::min(2, static_cast<int>(std::thread::hardware_concurrency()))),
      "");
}

}  // namespace
}  // namespace mt
