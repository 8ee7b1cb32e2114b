// How sequences are padded so that what a model says of one does not depend, on the CPU, on what
// runs beside it: each begins where the matrix products begin their round of rows (kernels/gemm.h),
// and so does what is asked of it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "kernels/gemm.h"
#include "tensor/tensor.h"

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

// What a pass works on: so many sequences of so many tokens, padding included, in whole tiles.
struct PaddedBatch {
  std::int64_t sequences = 0, length = 0;

  constexpr std::int64_t tokens() const { return sequences * length; }
};

// The smallest for `count` sequences of at most `longest` tokens.
constexpr PaddedBatch padded_batch(std::int64_t count, std::int64_t longest) {
  PaddedBatch best{count, round_up(longest, kRowTile)};
  for (std::int64_t length = round_up(longest, kRowPeriod); length < best.length;
       length += kRowPeriod) {
    const PaddedBatch batch{round_up(count, tile_sequences(length)), length};
    if (batch.tokens() < best.tokens()) best = batch;
  }
  return best;
}

// Tokens of a pass with room for `count` sequences of at most `longest` tokens.
constexpr std::int64_t room_for(std::int64_t count, std::int64_t longest) {
  return round_up(count * round_up(longest, kRowPeriod), kRowTile);
}

// What fills such room most differently: few long sequences, and many short ones.
constexpr std::array<PaddedBatch, 2> extreme_batches(std::int64_t tokens, std::int64_t longest) {
  const std::int64_t length = round_up(longest, kRowTile);
  return {{{(tokens + length - 1) / length, length}, {tokens / kRowPeriod, kRowPeriod}}};
}

// How many tokens take as long as what a pass takes whatever its size: on a CPU reading the
// weights, and waiting for the last thread; on a GPU, by an estimate, launching a small model's
// kernels.
constexpr std::int64_t tokens_of_start(Device device) {
  return device == Device::cuda ? 8 * kRowTile : kRowTile;
}

// How many of the sequences that wait, the longest first, are to go together into a pass of at most
// `most` tokens: as many as make the largest share of what is worked on theirs, `start` tokens for
// the pass itself included.  At least one.  `next(i)`, for each i once, in order: the tokens of the
// i-th of `waiting`, or 0 where it may not go with those before it.
template <class Next>
std::size_t best_together(std::size_t waiting, std::int64_t most, std::int64_t start,
                          const Next& next) {
  std::size_t best = 1;
  std::int64_t longest = 0, tokens = 0;
  double share = 0;
  for (std::size_t i = 0; i < waiting; ++i) {
    const std::int64_t own = next(i);
    if (own == 0) break;
    longest = std::max(longest, own);
    tokens += own;
    const std::int64_t all = padded_batch(static_cast<std::int64_t>(i) + 1, longest).tokens();
    if (i > 0 && all > most) break;
    const double here = static_cast<double>(tokens) / static_cast<double>(all + start);
    if (here >= share) best = i + 1, share = here;
  }
  return best;
}

}  // namespace mt
