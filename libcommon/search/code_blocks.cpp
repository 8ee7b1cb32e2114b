#include "search/code_blocks.h"

#include "search/vector_index.h"

namespace mt {
namespace {

constexpr std::int64_t kGroup = FastScan::kBlock, kHalf = kGroup / 2;

// The vector of a group whose half byte is in the lower bits of byte j; the other is kHalf behind.
constexpr std::int64_t vector_of(std::int64_t j) { return j / 2 + j % 2 * (kHalf / 2); }

// Calls body(first, b, at) for the vectors from `first` on, kGroup or fewer, and byte b of their
// codes, which is at `at` in the blocks.
void for_groups(std::int64_t count, std::int64_t bytes, std::int64_t block, const auto& body) {
  for (std::int64_t first = 0; first < count; first += kGroup)
    for (std::int64_t b = 0; b < bytes; ++b)
      body(first, b, (first / block * bytes + b) * block + first % block);
}

}  // namespace

std::vector<std::uint8_t> in_blocks(std::span<const std::uint8_t> codes, std::int64_t bytes,
                                    std::int64_t block) {
  const std::int64_t count = std::ssize(codes) / bytes;
  std::vector<std::uint8_t> blocks(
      static_cast<std::size_t>((count + block - 1) / block * block * bytes));
  for_groups(count, bytes, block, [&](std::int64_t first, std::int64_t b, std::int64_t at) {
    std::uint8_t* const to = blocks.data() + at;
    const auto code = [&](std::int64_t v) -> std::uint8_t {
      return first + v < count ? codes.data()[(first + v) * bytes + b] : 0;
    };
    for (std::int64_t j = 0; j < kHalf; ++j) {
      const std::uint8_t one = code(vector_of(j)), other = code(vector_of(j) + kHalf);
      to[j] = static_cast<std::uint8_t>((one & 15) | other << 4);
      to[j + kHalf] = static_cast<std::uint8_t>(one >> 4 | (other & 240));
    }
  });
  return blocks;
}

std::vector<std::uint8_t> from_blocks(std::span<const std::uint8_t> blocks, std::int64_t count,
                                      std::int64_t bytes, std::int64_t block) {
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(count * bytes));
  for_groups(count, bytes, block, [&](std::int64_t first, std::int64_t b, std::int64_t at) {
    const std::uint8_t* const from = blocks.data() + at;
    const auto put = [&](std::int64_t v, int code) {
      if (first + v < count)
        codes.data()[(first + v) * bytes + b] = static_cast<std::uint8_t>(code);
    };
    for (std::int64_t j = 0; j < kHalf; ++j) {
      const std::uint8_t lower = from[j], upper = from[j + kHalf];
      put(vector_of(j), (lower & 15) | (upper & 15) << 4);
      put(vector_of(j) + kHalf, lower >> 4 | (upper & 240));
    }
  });
  return codes;
}

}  // namespace mt
