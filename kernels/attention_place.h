// kernels/attention_place.h: where the rows of one query head lie, which keys its queries see, and
// which elements of P are dropped; for attention_cpu.cpp and attention_simd.cpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention.h"

namespace mt::cpu {

struct AttentionPlace {
  const AttentionShape& shape;
  const Dropout& dropout;
  const std::int32_t* first_key;  // or null
  std::int64_t sequence, head;

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
    const std::int64_t slot = shape.kv_slots ? shape.kv_slots[sequence] : sequence;
    return (slot * shape.kv_stride + j) * kv_stride() + kv_head() * shape.kv_head();
  }
  std::int64_t lse_row(std::int64_t i) const {
    return (sequence * shape.heads + head) * shape.q_length + i;
  }

  std::int64_t kv_length() const {
    return shape.kv_lengths ? shape.kv_lengths[sequence] : shape.kv_length;
  }
  // Query i sees keys first(i) to end(i) - 1, of which the last is its own.
  std::int64_t end(std::int64_t i) const { return i + 1 + kv_length() - shape.q_length; }
  std::int64_t first(std::int64_t i) const {
    const std::int64_t of_document = first_key ? first_key[sequence * shape.q_length + i] : 0;
    return shape.window < 0 ? of_document : std::max(of_document, end(i) - 1 - shape.window);
  }

  // Of P[i, j] to P[i, j + 3], j % 4 == 0: dropped where a word is below dropout.threshold().
  Counter dropout_words(std::int64_t i, std::int64_t j) const {
    const auto word = [](std::int64_t x) { return static_cast<std::uint32_t>(x); };
    return philox({word(j / 4), word(i), word(1 + shape.first_head + head), word(sample())},
                  dropout.key);
  }
  std::int64_t sample() const { return dropout.record->first_sample + sequence; }
};

}  // namespace mt::cpu
