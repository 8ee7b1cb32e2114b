// kernels/attention_place.h: where the rows of one query head lie, which keys its queries see, and
// which elements of P are dropped; for attention_cpu.cpp and attention_simd.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ranges>

#include "kernels/attention.h"
#include "kernels/attention_part.h"

namespace mt::cpu {

struct AttentionPlace {
  const AttentionShape& shape;
  const Dropout& dropout;
  const std::int32_t* first_key;  // or null
  std::int64_t sequence, head;
  const AttentionRange* range = nullptr;  // of a part; null: the queries are the last of the keys

  std::int64_t kv_head() const { return head / shape.group(); }
  std::int64_t q_stride() const { return shape.q_row(); }
  std::int64_t o_stride() const { return shape.heads * shape.head_dim; }
  std::int64_t kv_stride() const { return shape.kv_row(); }

  // Offsets: of query i in q and dq, in o and do, in lse; of key j in k, v, dk and dv.
  std::int64_t q_row(std::int64_t i) const {
    return (sequence * shape.q_length + i) * q_stride() + kv_head() * shape.q_group() +
           head % shape.group() * shape.head_dim;
  }
  std::int64_t o_row(std::int64_t i) const {
    return (sequence * shape.q_length + i) * o_stride() + head * shape.head_dim;
  }
  std::int64_t kv_row(std::int64_t j) const {
    return place_of_key(j) * kv_stride() + kv_head() * shape.kv_head();
  }
  std::int64_t lse_row(std::int64_t i) const {
    const std::int64_t stride = range && range->lse_stride > 0 ? range->lse_stride : shape.q_length;
    return (sequence * shape.heads + head) * stride + i;
  }

  std::int64_t kv_length() const {
    return shape.kv_lengths ? shape.kv_lengths[sequence] : shape.kv_length;
  }
  // Positions in the sequence.
  std::int64_t query(std::int64_t i) const {
    if (range) return range->query_position(i);
    return i + (shape.causal ? kv_length() - shape.q_length : 0);
  }
  std::int64_t key(std::int64_t j) const { return range ? range->key_position(j) : j; }

  // What is added to the scores of query i: of key j at [j].  Not of a part.
  template <class T>
  const T* bias(std::int64_t i) const {
    return static_cast<const T*>(shape.bias) + bias_place(i);
  }
  std::int64_t bias_place(std::int64_t i) const {
    return head * (2 * shape.kv_length - 1) + shape.kv_length - 1 - query(i);
  }

  // Query i sees keys first(i) to end(i) - 1, of which, if causal, the last is its own, or, of a
  // part, comes before it; there may be none then.
  std::int64_t end(std::int64_t i) const {
    if (!shape.causal) return end_of_mutual(i);
    return range ? keys_before(query(i) + 1) : query(i) + 1;
  }
  std::int64_t first(std::int64_t i) const {
    const std::int64_t of_document = first_key ? first_key[sequence * shape.q_length + i] : 0;
    const std::int64_t seen =
        shape.window < 0 ? of_document : std::max(of_document, query(i) - shape.window);
    return range ? keys_before(seen) : seen;
  }

  // The queries that see key j, of which there may not be so many, begin here.
  std::int64_t first_query(std::int64_t j) const { return shape.causal ? j : first(j); }

  // The random words of P[i, j] for keys at eight positions from `position` on, a multiple of 8;
  // half() is the one of a position.  P is dropped where it is below a HalfThreshold.
  Counter dropout_words(std::int64_t i, std::int64_t position) const {
    const auto word = [](std::int64_t x) { return static_cast<std::uint32_t>(x); };
    return philox<7>(
        {word(position / 8), word(query(i)), word(1 + shape.first_head + head), word(sample())},
        dropout.key);
  }
  static std::uint32_t half(const Counter& words, std::int64_t position) {
    return words[position % 8 / 2] >> position % 2 * 16 & 0xffff;
  }
  std::int64_t sample() const {
    return dropout.record->first_sample * dropout.of_sample + (range ? range->sequence : sequence);
  }

 private:
  std::int64_t place_of_key(std::int64_t j) const {
    if (!shape.kv_slots) return sequence * shape.kv_stride + j;
    if (shape.kv_runs == 1) return shape.kv_slots[sequence] * shape.kv_stride + j;
    const std::int64_t run = j / shape.kv_stride;
    return shape.kv_slots[sequence * shape.kv_runs + run] * shape.kv_stride +
           (j - run * shape.kv_stride);
  }
  // How many of a part's keys stand before a position.
  std::int64_t keys_before(std::int64_t position) const {
    const std::int64_t chunk = std::min(range->chunk, shape.kv_length);
    const std::int64_t before = position - range->key;
    return std::clamp<std::int64_t>(before, 0, chunk) +
           std::clamp<std::int64_t>(before - range->key_gap - chunk, 0, shape.kv_length - chunk);
  }
  // Not causal: i sees the keys whose queries see i.
  std::int64_t end_of_mutual(std::int64_t i) const {
    if (!first_key && shape.window < 0) return kv_length();
    const auto behind = std::views::iota(i, shape.q_length);
    const auto sees = [&](std::int64_t j) { return first(j) <= i; };
    return i + (std::ranges::partition_point(behind, sees) - behind.begin());
  }
};

}  // namespace mt::cpu
