// Which probabilities attention's dropout keeps on the GPU (attention.h).  Eight keys of a query
// share four random words, of which a lane that holds scores in the order of the matrix units needs
// one, or half of one: lanes draw for each other and exchange what they have drawn.
#pragma once

#include <cstdint>

#include "kernels/attention.h"

namespace mt::cuda {

struct KeepRule {
  RandomKey key;
  std::uint32_t threshold;
  float factor;
  const StepRecord* record;
  std::uint32_t first_head, first_sequence, of_sample;
  int first_query, first_key, query_gap, key_gap, chunk;  // an AttentionRange
  KeepRule(const Dropout& d, const AttentionShape& s)
      : key(d.key),
        threshold(HalfThreshold(d.p).value),
        factor(static_cast<float>(HalfThreshold(d.p).factor)),
        record(d.record),
        first_head(static_cast<std::uint32_t>(s.first_head)),
        first_sequence(static_cast<std::uint32_t>(s.place.sequence)),
        of_sample(static_cast<std::uint32_t>(d.of_sample)),
        first_query(static_cast<int>(s.place.query)),
        first_key(static_cast<int>(s.place.key)),
        query_gap(static_cast<int>(s.place.query_gap)),
        key_gap(static_cast<int>(s.place.key_gap)),
        chunk(static_cast<int>(s.place.chunk)) {}

  __device__ std::uint32_t sample(int sequence) const {
    return static_cast<std::uint32_t>(record->first_sample) * of_sample +
           static_cast<std::uint32_t>(sequence) + first_sequence;
  }
  __device__ int position(int key_index) const {
    return first_key + key_index + (key_index >= chunk ? key_gap : 0);
  }
  // The words of the eight keys among which this one is.
  __device__ Counter words(std::uint32_t sample, int head, int query, int key_index) const {
    const int at = first_query + query + (query >= chunk ? query_gap : 0);
    return philox<7>(
        {static_cast<std::uint32_t>(position(key_index)) / 8, static_cast<std::uint32_t>(at),
         1 + first_head + static_cast<std::uint32_t>(head), sample},
        key);
  }
  // 0 if it is dropped, else what it is multiplied with.
  __device__ float factor_of(std::uint32_t sample, int head, int query, int key_index) const {
    const Counter w = words(sample, head, query, key_index);
    const int place = position(key_index) % 8;
    const std::uint32_t low = place & 2 ? w[1] : w[0], high = place & 2 ? w[3] : w[2];
    const std::uint32_t word = place & 4 ? high : low;
    return (place & 1 ? word >> 16 : word & 0xffff) < threshold ? 0 : factor;
  }
};

// Two lanes that differ in one bit, each with two words: the first lane's second word and the
// second lane's first one change places.
__device__ inline void transpose_words(std::uint32_t& first, std::uint32_t& second, int lane_bit) {
  const bool is_second = threadIdx.x & lane_bit;
  const std::uint32_t got = __shfl_xor_sync(0xffffffff, is_second ? first : second, lane_bit);
  (is_second ? first : second) = got;
}

// Four lanes, which differ in `lane_bit` and twice that, with four words each: rows become columns.
__device__ inline void transpose_four(Counter& words, int lane_bit) {
  transpose_words(words[0], words[1], lane_bit);
  transpose_words(words[2], words[3], lane_bit);
  transpose_words(words[0], words[2], 2 * lane_bit);
  transpose_words(words[1], words[3], 2 * lane_bit);
}

// f(i, whether element i is kept) for the elements of one step of 16 columns, of which `words` has
// in turn those of columns 0 to 7, rows 0 to 7 and 8 to 15, and those of columns 8 to 15, two
// columns a word.
template <class F>
__device__ void each_of_step(int step, const Counter& words, std::uint32_t threshold, const F& f) {
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    f(8 * step + 2 * n, words[n] << 16 >= threshold << 16);
    f(8 * step + 2 * n + 1, words[n] >= threshold << 16);
  }
}

// Both: f(i, whether element i is kept) in the order of i, for 16 rows by kColumns columns of a
// product as a warp's lanes hold them: element i = 4 j + x of a lane is at row lane / 4 + x / 2 * 8
// and column 8 j + lane % 4 * 2 + x % 2.  words(row, column): KeepRule's.
//
// Rows are queries, columns keys from a position on that is a multiple of 8.  Four lanes hold the
// same two rows: each draws for one of them and 8 of 16 columns.
template <int kColumns, class Words, class F>
__device__ void each_kept_of_queries(std::uint32_t threshold, const Words& words, const F& f) {
  const int lane = threadIdx.x % 32, row = lane / 4 + lane % 2 * 8, column = lane / 2 % 2 * 8;
#pragma unroll
  for (int step = 0; step < kColumns / 16; ++step) {
    Counter w = words(row, 16 * step + column);
    transpose_four(w, 1);
    each_of_step(step, w, threshold, f);
  }
}

// Rows are keys from a position on that is a multiple of 8, columns queries.  Eight lanes hold the
// same four columns: each draws for one of them and 8 of 16 rows.
template <int kColumns, class Words, class F>
__device__ void each_kept_of_keys(std::uint32_t threshold, const Words& words, const F& f) {
  const int lane = threadIdx.x % 32, row = lane / 8 % 2 * 8;
  const int column = lane / 16 * 8 + lane % 4 * 2 + lane / 4 % 2;
  const bool high = lane & 4;  // which half of each word is this lane's; the other its neighbour's
#pragma unroll
  for (int step = 0; step < kColumns / 16; ++step) {
    Counter w = words(row, 16 * step + column);
    transpose_four(w, 8);
#pragma unroll
    for (int n = 0; n < 4; n += 2) {
      const std::uint32_t given = __byte_perm(w[n], w[n + 1], high ? 0x5410 : 0x7632);
      const std::uint32_t got = __shfl_xor_sync(0xffffffff, given, 4);
      w[n] = __byte_perm(w[n], got, high ? 0x3254 : 0x5410);
      w[n + 1] = __byte_perm(w[n + 1], got, high ? 0x3276 : 0x7610);
    }
    each_of_step(step, w, threshold, f);
  }
}

}  // namespace mt::cuda
