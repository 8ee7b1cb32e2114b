#include "data/corpus/large_pages.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace mt {

// The flags of the heap, as proc(5) has them under "VmFlags".
static std::string flags_of_heap() {
  std::ifstream maps("/proc/self/smaps");
  bool heap = false;
  std::string flags;
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with("VmFlags:") && heap) flags += line.substr(8);
    if (line.find(':') > line.find(' ')) heap = line.ends_with("[heap]");
  }
  return flags;
}

TEST(LargePages, AreTheHeaps) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage"))
    GTEST_SKIP() << "the system has none";
#if defined(MT_SANITIZE_ADDRESSES) || defined(MT_SANITIZE_THREADS)
  GTEST_SKIP() << "the sanitizer has a heap of its own";
#endif
  const auto is_large = [] { return flags_of_heap().find(" hg") != std::string::npos; };
  const auto grows_large = [&] {
    const bool before = is_large();
    use_large_pages();
    return !before && is_large();
  };
  // In a process of its own: tests before this one may have grown the heap, and asked for the same.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::_Exit(grows_large() ? 0 : 1), testing::ExitedWithCode(0), "");
}

}  // namespace mt
