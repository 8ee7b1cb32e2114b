// How sequences are padded so that what a model says of one does not depend, on the CPU, on what
// runs beside it: each begins where the matrix products begin their round of rows (kernels/gemm.h),
// and so does what is asked of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "kernels/gemm.h"

namespace mt {

constexpr std::int64_t round_up(std::int64_t count, std::int64_t unit) {
  return (count + unit - 1) / unit * unit;
}

// 12, 24, 48 and multiples of 48.
constexpr std::int64_t padded_length(std::int64_t tokens) {
  for (const std::int64_t length : {kRowPeriod, 2 * kRowPeriod})
    if (tokens <= length) return length;
  return round_up(tokens, kRowTile / 2);
}

// How many sequences of such a length fill tiles.
constexpr std::int64_t tile_sequences(std::int64_t length) {
  return kRowTile / std::gcd(kRowTile, length);
}

// How many sequences of such a length a pass over so many tokens has room for, in whole tiles; one
// at least.
constexpr std::int64_t sequences_within(std::int64_t tokens, std::int64_t length) {
  const std::int64_t unit = tile_sequences(length);
  return std::max<std::int64_t>(1, tokens / length / unit * unit);
}

// The length of so many sequences in a pass: a long one that is alone fills tiles.
constexpr std::int64_t length_in_pass(std::int64_t sequences, std::int64_t length) {
  return sequences == 1 && length > kRowTile / 2 ? round_up(length, kRowTile) : length;
}

}  // namespace mt
