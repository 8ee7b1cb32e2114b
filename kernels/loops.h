// kernels/loops.h: the loops that CPU kernels are made of.  Blocks and lanes depend on the
// problem's shape alone, so neither the number of threads nor the instruction set changes a bit of
// a result.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/threads.h"
#include "kernels/isa.h"

namespace mt::cpu {

inline constexpr std::int64_t kBlock = 16384;  // elements of one task: some microseconds of work
inline constexpr int kLanes = 16;              // partial sums: one AVX-512 register of floats

// Calls body(first, last) for consecutive blocks of [0, count), several at a time.
template <class Body>
void for_blocks(std::int64_t count, std::int64_t block, const Body& body) {
  parallel_for((count + block - 1) / block, [&](std::int64_t i) {
    run([&] { body(i * block, std::min(count, (i + 1) * block)); });
  });
}

// Rows of `cols` elements that make about one block.
inline std::int64_t rows_per_block(std::int64_t cols) {
  return std::max<std::int64_t>(1, kBlock / std::max<std::int64_t>(1, cols));
}

// term(0) + ... + term(count - 1): element i is added to lane i % kLanes, then the lanes by halves.
template <class T, class Term>
[[gnu::always_inline]] inline T sum(std::int64_t count, const Term& term) {
  T lane[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int l = 0; l < kLanes; ++l) lane[l] += term(i + l);
  for (int l = 0; i < count; ++i, ++l) lane[l] += term(i);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
  return lane[0];
}

}  // namespace mt::cpu
