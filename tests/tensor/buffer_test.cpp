// Buffers: large ones ask for large pages, small ones do not.
#include "tensor/buffer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/large_pages.h"
#include "tests/support/mapping_of.h"

namespace mt {
namespace {

bool asks(const Buffer& buffer) {
  return mapping_of(buffer.data(), "VmFlags").find(" hg") != std::string::npos;
}

TEST(Buffer, AsksForLargePagesWhereItHasRoomForOne) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) GTEST_SKIP();
  EXPECT_TRUE(asks(Buffer(Device::cpu, 2 * kLargePage)));
  EXPECT_FALSE(asks(Buffer(Device::cpu, kLargePage / 2)));
}

}  // namespace
}  // namespace mt
