// Memory: buffers, on the host and on meta, and arenas.
#include "tensor/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace mt {
namespace {

std::uintptr_t address(const ConstTensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.data());
}

TEST(Buffer, HostMemoryStartsAsZeros) {
  const Buffer buffer(Device::cpu, 100000);
  const Tensor tensor = buffer.tensor(DType::u8, {100000});
  EXPECT_EQ(buffer.bytes(), 100000U);
  EXPECT_EQ(address(tensor) % 4096, 0U);
  EXPECT_TRUE(std::ranges::all_of(tensor.span<std::uint8_t>(), [](auto x) { return x == 0; }));
}

TEST(Buffer, MovesItsMemory) {
  Buffer first(Device::cpu, 64);
  void* const data = first.data();
  Buffer second = std::move(first);
  EXPECT_EQ(second.data(), data);
  Buffer third(Device::cpu, 8);
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.bytes(), 64U);
}

TEST(Buffer, OfNoBytesHasNoAddress) {
  const Buffer buffer(Device::cpu, 0);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_FALSE(buffer.tensor(DType::f32, {0}));
}

TEST(Buffer, OfMoreThanThereIsIsOutOfMemory) {
  try {
    Buffer(Device::cpu, std::size_t{1} << 60);
    FAIL() << "2^60 bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::out_of_memory);
    EXPECT_STREQ(error.what(), "out of host memory: 1152921504606846976 bytes asked for");
  }
}

TEST(Buffer, MetaHasAddressesForMoreThanAnyMemory) {
  constexpr std::size_t kTebibyte = std::size_t{1} << 40;
  const Buffer buffer(Device::meta, kTebibyte);
  const Tensor last = buffer.tensor(DType::f32, {2}, kTebibyte - 8);
  EXPECT_EQ(buffer.device(), Device::meta);
  EXPECT_EQ(last.device(), Device::meta);
  EXPECT_EQ(last.rows(0, 1).device(), Device::meta);
  EXPECT_EQ(last.reshape({1, 2}).device(), Device::meta);
  EXPECT_EQ(address(last), reinterpret_cast<std::uintptr_t>(buffer.data()) + kTebibyte - 8);
}

TEST(Arena, AllocatesOneAfterAnotherAligned) {
  Arena arena(Buffer(Device::cpu, 4096));
  const Tensor a = arena.alloc(DType::f32, {3}), b = arena.alloc(DType::f64, {32}),
               c = arena.alloc(DType::f64, {33}), d = arena.alloc(DType::u8, {0}),
               e = arena.alloc(DType::u8, {1});
  for (const Tensor& tensor : {a, b, c, d, e}) EXPECT_EQ(address(tensor) % 256, 0U);
  EXPECT_EQ(address(b) - address(a), 256U);
  EXPECT_EQ(address(c) - address(b), 256U);
  EXPECT_EQ(address(d) - address(c), 512U);
  EXPECT_EQ(address(e), address(d));  // nothing was needed for d
  EXPECT_EQ(arena.mark(), 256U + 256 + 512 + 256);
}

TEST(Arena, RewindsAndRemembersItsPeak) {
  Arena arena(Buffer(Device::cpu, 4096));
  const std::size_t mark = arena.mark();
  const Tensor a = arena.alloc(DType::f32, {64});
  EXPECT_EQ(arena.peak_bytes(), 256U);
  {
    const ArenaScope scope(arena);
    arena.alloc(DType::f32, {128});
    EXPECT_EQ(arena.peak_bytes(), 768U);
  }
  EXPECT_EQ(arena.mark(), 256U);
  arena.alloc(DType::f32, {1});
  EXPECT_EQ(arena.peak_bytes(), 768U);
  arena.rewind(mark);
  EXPECT_EQ(address(arena.alloc(DType::i32, {1})), address(a));
}

// Two stacks in one memory: neither end's rewind touches the other, and the peak is of both.
TEST(Arena, FillsFromBothEnds) {
  constexpr Arena::End kBack = Arena::End::back;
  Arena arena(Buffer(Device::cpu, 2048));
  const Tensor front = arena.alloc(DType::f32, {64}), back = arena.alloc(DType::f32, {65}, kBack);
  EXPECT_EQ(address(back) - address(front), 2048U - 512);
  {
    const ArenaScope scope(arena, kBack);
    EXPECT_EQ(address(back) - address(arena.alloc(DType::u8, {1}, kBack)), 256U);
    const ArenaScope inner(arena);
    arena.alloc(DType::f32, {128});
    EXPECT_EQ(arena.mark(), 768U);
    EXPECT_EQ(arena.mark(kBack), 768U);
  }
  EXPECT_EQ(arena.mark(), 256U);
  EXPECT_EQ(arena.mark(kBack), 512U);
  EXPECT_EQ(arena.peak_bytes(), 1536U);
  arena.alloc(DType::u8, {1280}, kBack);
  EXPECT_THROW(arena.alloc(DType::u8, {1}), Error);
  EXPECT_THROW(arena.alloc(DType::u8, {1}, kBack), Error);
  EXPECT_EQ(arena.peak_bytes(), 2048U);
}

// An arena of the peak's size holds what was measured in a larger one.
TEST(Arena, ThePeakIsEnough) {
  const auto use = [](Arena& arena) {
    const ArenaScope scope(arena, Arena::End::back);
    arena.alloc(DType::f32, {100}, Arena::End::back);
    const ArenaScope inner(arena);
    arena.alloc(DType::f32, {70});
    arena.alloc(DType::f32, {3}, Arena::End::back);
  };
  Arena measuring(Buffer(Device::meta, kMeasuring));
  use(measuring);
  Arena arena(Buffer(Device::cpu, measuring.peak_bytes()));
  use(arena);
  EXPECT_EQ(arena.peak_bytes(), measuring.peak_bytes());
  Arena small(Buffer(Device::cpu, measuring.peak_bytes() - 256));
  EXPECT_THROW(use(small), Error);
}

TEST(Arena, FullIsOurBugAndLeavesItAsItWas) {
  Arena arena(Buffer(Device::cpu, 512));
  arena.alloc(DType::f32, {64});
  try {
    arena.alloc(DType::f32, {65});
    FAIL() << "768 of 512 bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::internal);
    EXPECT_STREQ(error.what(),
                 "an arena of 512 bytes is full: 768 needed with a tensor of [65] float32");
  }
  EXPECT_EQ(arena.peak_bytes(), 256U);
  EXPECT_TRUE(arena.alloc(DType::f32, {64}));
}

TEST(Arena, OnMetaMeasures) {
  Arena arena(Buffer(Device::meta, std::size_t{1} << 40));
  const Tensor tensor = arena.alloc(DType::f32, {1 << 20, 1 << 10});
  EXPECT_EQ(arena.device(), Device::meta);
  EXPECT_EQ(tensor.device(), Device::meta);
  EXPECT_EQ(arena.peak_bytes(), std::size_t{1} << 32);
}

TEST(Arena, OnMetaKnowsWhatItHeldWhenItWasFullest) {
  Arena arena(Buffer(Device::meta, 1 << 20));
  const auto extents = [&] {
    std::vector<std::int64_t> all;
    for (const ConstTensor& tensor : arena.at_peak()) all.push_back(tensor.numel());
    return all;
  };
  EXPECT_TRUE(extents().empty());
  arena.alloc(DType::u8, {1});
  const std::size_t mark = arena.mark();
  arena.alloc(DType::u8, {2});
  arena.alloc(DType::u8, {3}, Arena::End::back);
  EXPECT_EQ(extents(), (std::vector<std::int64_t>{1, 2, 3}));
  arena.rewind(mark);
  arena.alloc(DType::u8, {4});  // as full as before: the first counts
  EXPECT_EQ(extents(), (std::vector<std::int64_t>{1, 2, 3}));
  arena.rewind(0, Arena::End::back);
  arena.alloc(DType::u8, {5});
  arena.alloc(DType::u8, {6});
  arena.rewind(0);
  EXPECT_EQ(extents(), (std::vector<std::int64_t>{1, 4, 5, 6}));
  EXPECT_EQ(arena.peak_bytes(), 4 * 256U);
}

}  // namespace
}  // namespace mt
