// Large pages are for those that ask, where the kernel knows the difference.
#include "base/large_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>

#include "tests/support/mapping_of.h"

namespace mt {
namespace {

bool may_be_large(const void* mapping) {
  return mapping_of(mapping, "THPeligible").find('1') != std::string::npos;
}

void* map(std::size_t bytes) {
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// In a process of its own, as there is no way back: exits with 0 if all is well, with 1 to 3 where
// it is not, and with 4 where the kernel cannot.
[[noreturn]] void keep() {
  if (!keep_large_pages_to_who_asks()) std::_Exit(4);
  constexpr std::size_t kBytes = 4 * kLargePage;
  const void* const reserved = map(kBytes);
  void* const table = map(kBytes);
  if (may_be_large(reserved)) std::_Exit(1);
  ask_for_large_pages(table, kBytes);
  if (mapping_of(table, "VmFlags").find(" hg") == std::string::npos) std::_Exit(2);
  std::_Exit(may_be_large(reserved) ? 3 : 0);
}

TEST(LargePages, WhatIsReservedAloneStaysSmall) {
  EXPECT_EXIT(
      keep(),
      [](int status) {
        const int code = WEXITSTATUS(status);
        return WIFEXITED(status) && (code == 0 || code == 4);
      },
      "");
}

}  // namespace
}  // namespace mt
