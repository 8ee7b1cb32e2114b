// What makes blocks of GGUF's types from numbers, with and without an importance matrix
// (ckpt/gguf_quantize.h): searches for scales, as ggml-quants.c has them, and how blocks are put
// together.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/half.h"
#include "ckpt/gguf_blocks.h"

namespace mt::gguf {

inline constexpr std::size_t kShort = kShortGgufBlock, kSuper = kLongGgufBlock;

// `x` without its fraction, or the bound that it passes; the lower of what is no number.
inline int whole(float x, int least, int most) {
  const auto high = static_cast<float>(most);
  return x >= static_cast<float>(least) ? x <= high ? static_cast<int>(x) : most : least;
}

inline int nearest(float x, int least, int most) {  // halves to even
  return whole(std::nearbyint(x), least, most);
}

// A block, field by field.
class Fields {
 public:
  explicit Fields(std::byte* at) : at_(at) {}
  template <class T>
  void number(T value) {
    std::memcpy(at_, &value, sizeof value);
    at_ += sizeof value;
  }
  float half(float value) {  // as it is read again
    const Fp16 stored(value);
    number(stored.bits);
    return static_cast<float>(stored);
  }
  std::uint8_t* zeros(std::size_t count) {
    std::memset(at_, 0, count);
    at_ += count;
    return reinterpret_cast<std::uint8_t*>(at_ - count);
  }

 private:
  std::byte* at_;
};

inline constexpr float kNothing = 1e-15F;  // smaller numbers are zeros

inline std::uint8_t byte(int bits) { return static_cast<std::uint8_t>(bits); }

// The first of the largest magnitude, with its sign.
inline float largest(std::span<const float> x) {
  float found = 0;
  for (const float v : x)
    if (std::fabs(v) > std::fabs(found)) found = v;
  return found;
}

// --- Scales of parts ----------------------------------------------------------------------------

// d q + m for the numbers of a part.
struct Line {
  float d = 0, m = 0;
};

// Which roundings are tried: at steps of (max - min) / (kMost + first + step i), i up to `tries`.
struct Tries {
  float first, step;
  int tries;
  bool absolute = false;  // by the sum of w |d q + m - x| instead of its square
};

// The q, 0 to kMost, and the line of least error Σ w (d q + m - x)² of those that least squares
// finds for these roundings.  m is 0 or less.
template <int kMost, std::size_t kCount>
Line best_line(const float* x, const float* w, int* q, const Tries& of) {
  float least = x[0], most = x[0], weights = w[0], weighted = w[0] * x[0];
  for (std::size_t i = 1; i < kCount; ++i) {
    least = std::min(least, x[i]);
    most = std::max(most, x[i]);
    weights += w[i];
    weighted += w[i] * x[i];
  }
  least = std::min(least, 0.0F);
  std::fill_n(q, kCount, 0);
  if (most == least) return {0, least};
  const auto error_of = [&](const Line& line, const int* codes) {
    float error = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const float off = line.d * static_cast<float>(codes[i]) + line.m - x[i];
      error += w[i] * (of.absolute ? std::fabs(off) : off * off);
    }
    return error;
  };
  const float inverse = kMost / (most - least);
  Line best{1 / inverse, least};
  for (std::size_t i = 0; i < kCount; ++i) q[i] = nearest(inverse * (x[i] - best.m), 0, kMost);
  float best_error = error_of(best, q);
  for (int k = 0; k <= of.tries; ++k) {
    const float steps = (of.first + of.step * static_cast<float>(k) + kMost) / (most - best.m);
    float sum = 0, squares = 0, products = 0;
    int other[kCount];
    for (std::size_t i = 0; i < kCount; ++i) {
      other[i] = nearest(steps * (x[i] - best.m), 0, kMost);
      const auto l = static_cast<float>(other[i]);
      sum += w[i] * l;
      squares += w[i] * l * l;
      products += w[i] * l * x[i];
    }
    const float determinant = weights * squares - sum * sum;
    if (!(determinant > 0)) continue;
    Line line{(weights * products - weighted * sum) / determinant,
              (squares * weighted - sum * products) / determinant};
    if (line.m > 0) line = {products / squares, 0};
    const float error = error_of(line, other);
    if (!(error < best_error)) continue;
    std::copy_n(other, kCount, q);
    best_error = error;
    best = line;
  }
  return best;
}

// Sums over a part of w x q and w q q, w the weights.
struct Sums {
  float products = 0, squares = 0;
};

// A q may become `least` to `most`.  It is changed only where its part's other q have a sum of
// products above 0 and, with by_squares, one of squares above 0, which llama.cpp asks for of
// importances but not of its own weights.
struct Changes {
  int least = 0, most = 0;
  bool by_squares = false;
};

// Changes the q one by one while (Σ w x q)² / Σ w q² grows, at most five times.  Gives the d of d
// q.
template <std::size_t kCount, class Weight>
float change_one_by_one(const float* x, const Weight& weight, int* q, Sums sums,
                        const Changes& to) {
  for (int pass = 0; pass < 5; ++pass) {
    bool changed = false;
    for (std::size_t i = 0; i < kCount; ++i) {
      const float w = weight(i);
      const auto l = static_cast<float>(q[i]);
      Sums without{sums.products - w * x[i] * l, sums.squares - w * l * l};
      if (!(without.products > 0) || (to.by_squares && !(without.squares > 0))) continue;
      const int other = nearest(x[i] * without.squares / without.products, to.least, to.most);
      if (other == q[i]) continue;
      const auto o = static_cast<float>(other);
      without.products += w * x[i] * o;
      without.squares += w * o * o;
      if (!(without.squares > 0 && without.products * without.products * sums.squares >
                                       sums.products * sums.products * without.squares))
        continue;
      q[i] = other;
      sums = without;
      changed = true;
    }
    if (!changed) break;
  }
  return sums.squares > 0 ? sums.products / sums.squares : 0;
}

// The q, -kMiddle to kMiddle - 1, and the d of d q with which (Σ w x q)² / Σ w q² is largest, of 19
// roundings.
template <int kMiddle, std::size_t kCount>
float best_scale(const float* x, const float* w, int* q) {
  std::fill_n(q, kCount, -kMiddle);  // stored as 0
  const float most = largest({x, kCount});
  if (std::fabs(most) < kNothing) return 0;
  const auto sums_at = [&](float inverse) {
    Sums sums;
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto l = static_cast<float>(nearest(inverse * x[i], -kMiddle, kMiddle - 1));
      sums.products += w[i] * x[i] * l;
      sums.squares += w[i] * l * l;
    }
    return sums;
  };
  const auto take = [&](float inverse) {
    for (std::size_t i = 0; i < kCount; ++i) q[i] = nearest(inverse * x[i], -kMiddle, kMiddle - 1);
  };
  const Sums start = sums_at(-kMiddle / most);
  take(-kMiddle / most);
  float d = start.squares != 0 ? start.products / start.squares : 0, best = d * start.products;
  for (int k = -9; k <= 9; ++k) {
    if (k == 0) continue;
    const float inverse = -(kMiddle + .1F * static_cast<float>(k)) / most;
    const Sums sums = sums_at(inverse);
    if (!(sums.squares > 0 && sums.products * sums.products > best * sums.squares)) continue;
    take(inverse);
    d = sums.products / sums.squares;
    best = d * sums.products;
  }
  return d;
}

// --- Blocks -------------------------------------------------------------------------------------

// Of 32: d q + m, or d (q - the middle), q from 0 on.
template <bool kFive, bool kLeast>
void put_short(std::byte* block, const int* q, float d, float m) {
  Fields fields(block);
  fields.half(d);
  if (kLeast) fields.half(m);
  std::uint32_t high = 0;
  for (std::size_t i = 0; i < kShort; ++i) high |= static_cast<std::uint32_t>(q[i] >> 4) << i;
  if (kFive) fields.number(high);
  for (std::size_t i = 0; i < kShort / 2; ++i)
    fields.number(byte((q[i] & 15) | (q[i + kShort / 2] & 15) << 4));
}

// Two bits each: of 128 elements 0 to 31 are the lowest of 32 bytes.
inline void put_pairs(std::uint8_t* to, const int* q) {
  for (std::size_t i = 0; i < kSuper; ++i)
    to[i / 128 * 32 + i % 32] |= byte((q[i] & 3) << i % 128 / 32 * 2);
}

// Of the rest the scales of parts, s and t, are whole numbers, by which numbers are rounded again;
// where a part's is zero, its q stay.
inline void put_q2_k(std::byte* block, const float* x, int* q, const int* s, const int* t, float d,
                     float m) {
  constexpr std::size_t kParts = 16, kPart = 16;
  Fields fields(block);
  std::uint8_t *const scales = fields.zeros(kParts), *const low = fields.zeros(kSuper / 4);
  const float whole_d = fields.half(d), whole_m = fields.half(m);
  for (std::size_t j = 0; j < kParts; ++j) {
    scales[j] = byte(s[j] | t[j] << 4);
    const float step = whole_d * static_cast<float>(s[j]),
                least = whole_m * static_cast<float>(t[j]);
    if (step == 0) continue;
    for (std::size_t i = j * kPart; i < (j + 1) * kPart; ++i)
      q[i] = nearest((x[i] + least) / step, 0, 3);
  }
  put_pairs(low, q);
}

// s, -32 to 31, and q, -4 to 3.
inline void put_q3_k(std::byte* block, const float* x, int* q, const int* s, float d) {
  constexpr std::size_t kParts = 16, kPart = 16;
  Fields fields(block);
  std::uint8_t *const high = fields.zeros(32), *const low = fields.zeros(64),
                      *const scales = fields.zeros(12);
  const float whole_d = fields.half(d);
  for (std::size_t j = 0; j < kParts; ++j) {
    scales[j % 8] |= byte(((s[j] + 32) & 15) << (j < 8 ? 0 : 4));
    scales[8 + j % 4] |= byte((s[j] + 32) >> 4 << j / 4 * 2);
    const float step = whole_d * static_cast<float>(s[j]);
    if (step == 0) continue;
    for (std::size_t i = j * kPart; i < (j + 1) * kPart; ++i) q[i] = nearest(x[i] / step, -4, 3);
  }
  for (std::size_t i = 0; i < kSuper; ++i) {
    q[i] += 4;
    high[i % 32] |= byte(q[i] >> 2 << i / 32);
  }
  put_pairs(low, q);
}

template <bool kFive>
void put_q4_k_or_q5_k(std::byte* block, const float* x, int* q, const int* s, const int* t, float d,
                      float m) {
  constexpr std::size_t kParts = 8, kPart = 32;
  constexpr int kMost = kFive ? 31 : 15;
  Fields fields(block);
  const float whole_d = fields.half(d), whole_m = fields.half(m);
  std::uint8_t* const scales = fields.zeros(12);
  std::uint8_t* const high = kFive ? fields.zeros(32) : nullptr;
  std::uint8_t* const low = fields.zeros(128);
  for (std::size_t j = 0; j < kParts; ++j) {
    if (j < 4) {
      scales[j] = byte(s[j]);
      scales[j + 4] = byte(t[j]);
    } else {
      scales[j + 4] = byte((s[j] & 15) | (t[j] & 15) << 4);
      scales[j - 4] |= byte(s[j] >> 4 << 6);
      scales[j] |= byte(t[j] >> 4 << 6);
    }
    const float step = whole_d * static_cast<float>(s[j]),
                least = whole_m * static_cast<float>(t[j]);
    if (step == 0) continue;
    for (std::size_t i = j * kPart; i < (j + 1) * kPart; ++i)
      q[i] = nearest((x[i] + least) / step, 0, kMost);
  }
  for (std::size_t i = 0; i < kSuper; ++i) {
    low[i / 64 * 32 + i % 32] |= byte((q[i] & 15) << (i % 64 < 32 ? 0 : 4));
    if constexpr (kFive) high[i % 32] |= byte(q[i] >> 4 << i / 32);
  }
}

// The parts' scales, as they were found, become whole numbers by the largest of them.
inline void put_q6_k(std::byte* block, const float* x, int* q, std::span<const float> found) {
  constexpr std::size_t kParts = 16, kPart = 16;
  const float most = largest(found);
  Fields fields(block);
  std::uint8_t *const low = fields.zeros(128), *const high = fields.zeros(64),
                      *const scales = fields.zeros(kParts);
  if (std::fabs(most) < kNothing) {
    fields.half(0);
    return;
  }
  const float inverse = -128 / most, whole_d = fields.half(1 / inverse);
  for (std::size_t j = 0; j < kParts; ++j) {
    const int s = nearest(inverse * found[j], -128, 127);
    scales[j] = byte(s);
    const float step = whole_d * static_cast<float>(s);
    if (step == 0) continue;
    for (std::size_t i = j * kPart; i < (j + 1) * kPart; ++i) q[i] = nearest(x[i] / step, -32, 31);
  }
  for (std::size_t i = 0; i < kSuper; ++i) {
    q[i] += 32;
    low[i / 128 * 64 + i % 64] |= byte((q[i] & 15) << (i % 128 < 64 ? 0 : 4));
    q[i] >>= 4;
  }
  put_pairs(high, q);
}

}  // namespace mt::gguf
