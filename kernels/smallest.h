// kernels/smallest.h: of each row of distances the `count` smallest, of equal ones those with the
// smaller numbers, in the order in which they stand; behind them, where a row has fewer, the number
// -1 and the largest float.  What is no number is infinitely far.
//   distance[i, j] = from[j] - values[i, j]          or the values themselves, without `from`
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {

struct SmallestOf {
  const float* values = nullptr;  // rows one behind the other
  const float* from = nullptr;    // [cols] or null
  // [rows + 1]: where rows begin; null: each has `cols` values.
  const std::int64_t* begins = nullptr;
  const std::int32_t* numbers = nullptr;  // of the values; null: 0, 1, ... in each row
  std::int64_t rows = 0, cols = 0, count = 0;

  constexpr std::int64_t begin(std::int64_t row) const { return begins ? begins[row] : row * cols; }
  constexpr float distance(std::int64_t at, std::int64_t place) const {
    const float far = from ? from[place] - values[at] : values[at];
    return far == far ? far : std::bit_cast<float>(0x7f800000);
  }
  constexpr std::int32_t number(std::int64_t at, std::int64_t place) const {
    return numbers ? numbers[at] : static_cast<std::int32_t>(place);
  }
  // Smaller for smaller distances, then for smaller numbers; equal for both zeros.
  constexpr std::uint64_t key(std::int64_t at, std::int64_t place) const {
    const auto bits = std::bit_cast<std::uint32_t>(distance(at, place) + 0.0F);
    const std::uint32_t order = bits & 0x80000000 ? ~bits : bits | 0x80000000;
    return static_cast<std::uint64_t>(order) << 32 | static_cast<std::uint32_t>(number(at, place));
  }
};

}  // namespace mt

// numbers, distances: [rows, count].  The numbers of a row are different ones, at least 0.
namespace mt::cpu {
void smallest(std::int32_t* numbers, float* distances, const SmallestOf& problem);
}  // namespace mt::cpu

namespace mt::cuda {
void smallest(std::int32_t* numbers, float* distances, const SmallestOf& problem,
              cudaStream_t stream);
}  // namespace mt::cuda
