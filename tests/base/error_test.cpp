#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "base/memory.h"
#include "tests/base/scratch.h"

namespace mt {

TEST(Error, CarriesCodeAndLine) {
  EXPECT_EQ(error_of([] { fail(Exit::bad_data, "x.idx: ", 33, " bytes, expected ", 34u); }),
            "65 x.idx: 33 bytes, expected 34");
}

TEST(Error, ErrnoDecidesTheCode) {
  const auto with = [](int number, Exit otherwise = Exit::io_error) {
    return error_of([&] {
      errno = number;
      fail_errno("x", "cannot open", otherwise);
    });
  };
  EXPECT_EQ(with(ENOENT), "66 x: cannot open: No such file or directory");
  EXPECT_EQ(with(EACCES), "77 x: cannot open: Permission denied");
  EXPECT_EQ(with(EROFS), "73 x: cannot open: Read-only file system");
  EXPECT_EQ(with(ENOMEM), "71 x: cannot open: Cannot allocate memory");
  EXPECT_EQ(with(ENOSPC), "74 x: cannot open: No space left on device");
  EXPECT_EQ(with(ENOENT, Exit::cannot_create), "73 x: cannot open: No such file or directory");
  EXPECT_EQ(with(EACCES, Exit::cannot_create), "77 x: cannot open: Permission denied");
}

TEST(Memory, IsThereOrIsMissed) {
  EXPECT_GT(available_memory(), 1U << 20);
  expect_memory(1 << 10, "a little");
  const std::string missed = error_of([] { expect_memory(1ULL << 60, "all"); });
  EXPECT_TRUE(
      missed.starts_with("71 all needs at least 1152921504606846976 bytes of memory, of which "))
      << missed;
}

}  // namespace mt
