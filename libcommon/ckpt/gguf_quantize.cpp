#include "ckpt/gguf_quantize.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/half.h"

namespace mt {
namespace {

constexpr std::size_t kShort = kShortGgufBlock, kSuper = kLongGgufBlock;

// `x` without its fraction, or the bound that it passes; the lower of what is no number.
int whole(float x, int least, int most) {
  const auto high = static_cast<float>(most);
  return x >= static_cast<float>(least) ? x <= high ? static_cast<int>(x) : most : least;
}

int nearest(float x, int least, int most) {  // halves to even
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

constexpr float kNothing = 1e-15F;  // smaller numbers are zeros

std::uint8_t byte(int bits) { return static_cast<std::uint8_t>(bits); }

// The first of the largest magnitude, with its sign.
float largest(std::span<const float> x) {
  float found = 0;
  for (const float v : x)
    if (std::fabs(v) > std::fabs(found)) found = v;
  return found;
}

// --- Of 32 --------------------------------------------------------------------------------------

template <bool kFive, bool kLeast>
void write_short(std::byte* block, const float* x) {
  constexpr int kMiddle = kFive ? 16 : 8, kMost = 2 * kMiddle - 1;
  const auto [least, most] = std::minmax_element(x, x + kShort);
  const float m = *least,
              d = kLeast ? (*most - m) / static_cast<float>(kMost)
                         : largest({x, kShort}) / -kMiddle,
              inverse = d == 0 ? 0 : 1 / d;
  Fields fields(block);
  fields.half(d);
  if (kLeast) fields.half(m);
  int q[kShort];
  std::uint32_t high = 0;
  for (std::size_t i = 0; i < kShort; ++i) {
    const float steps =
        kLeast ? (x[i] - m) * inverse + .5F : x[i] * inverse + (static_cast<float>(kMiddle) + .5F);
    q[i] = whole(steps, 0, kMost);
    high |= static_cast<std::uint32_t>(q[i] >> 4) << i;
  }
  if (kFive) fields.number(high);
  for (std::size_t i = 0; i < kShort / 2; ++i)
    fields.number(byte((q[i] & 15) | (q[i + kShort / 2] & 15) << 4));
}

void write_q8_0(std::byte* block, const float* x) {
  const float d = std::fabs(largest({x, kShort})) / 127, inverse = d == 0 ? 0 : 1 / d;
  Fields fields(block);
  fields.half(d);
  for (std::size_t i = 0; i < kShort; ++i) {
    const float step = std::round(x[i] * inverse);
    fields.number(static_cast<std::int8_t>(std::isfinite(step) ? step : 0));
  }
}

// --- Scales of parts ----------------------------------------------------------------------------

// d q + m for the numbers of a part.
struct Line {
  float d = 0, m = 0;
};

// The q, 0 to kMost, and the line of least error Σ w (d q + m - x)², or Σ w |d q + m - x|, of those
// that least squares finds for roundings at steps of (max - min) / (kMost + first + .1 i), i up to
// `tries`.  m is 0 or less.
template <int kMost, std::size_t kCount>
Line best_line(const float* x, const float* w, int* q, float first, int tries, bool absolute) {
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
  const auto error_of = [&](const Line& line, const int* of) {
    float error = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const float off = line.d * static_cast<float>(of[i]) + line.m - x[i];
      error += w[i] * (absolute ? std::fabs(off) : off * off);
    }
    return error;
  };
  const float inverse = kMost / (most - least);
  Line best{1 / inverse, least};
  for (std::size_t i = 0; i < kCount; ++i) q[i] = nearest(inverse * (x[i] - best.m), 0, kMost);
  float best_error = error_of(best, q);
  for (int k = 0; k <= tries; ++k) {
    const float steps = (first + .1F * static_cast<float>(k) + kMost) / (most - best.m);
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

// Sums over a part of w x q and w q q, w = x².
struct Sums {
  float products = 0, squares = 0;
};

// The q, -32 to 31, and the d of d q with which (Σ w x q)² / Σ w q² is largest, of 19 roundings.
float best_scale_of_q6(const float* x, int* q) {
  constexpr std::size_t kCount = 16;
  constexpr int kMiddle = 32;
  std::fill_n(q, kCount, -kMiddle);  // stored as 0
  const float most = largest({x, kCount});
  if (std::fabs(most) < kNothing) return 0;
  const auto sums_at = [&](float inverse) {
    Sums sums;
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto l = static_cast<float>(nearest(inverse * x[i], -kMiddle, kMiddle - 1));
      const float w = x[i] * x[i];
      sums.products += w * x[i] * l;
      sums.squares += w * l * l;
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

// The q, -4 to 3, and their d, changed one by one while (Σ w x q)² / Σ w q² grows, at most five
// times.
float best_scale_of_q3(const float* x, int* q) {
  constexpr std::size_t kCount = 16;
  constexpr int kMiddle = 4;
  std::fill_n(q, kCount, -kMiddle);  // stored as 0
  const float most = largest({x, kCount});
  if (std::fabs(most) < kNothing) return 0;
  const float inverse = -kMiddle / most;
  Sums sums;
  for (std::size_t i = 0; i < kCount; ++i) {
    q[i] = nearest(inverse * x[i], -kMiddle, kMiddle - 1);
    const auto l = static_cast<float>(q[i]);
    const float w = x[i] * x[i];
    sums.products += w * x[i] * l;
    sums.squares += w * l * l;
  }
  for (int pass = 0; pass < 5; ++pass) {
    bool changed = false;
    for (std::size_t i = 0; i < kCount; ++i) {
      const float w = x[i] * x[i];
      const auto l = static_cast<float>(q[i]);
      Sums without{sums.products - w * x[i] * l, sums.squares - w * l * l};
      if (!(without.products > 0)) continue;
      const int other = nearest(x[i] * without.squares / without.products, -kMiddle, kMiddle - 1);
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

// --- Of 256 -------------------------------------------------------------------------------------

// Two bits each: of 128 elements 0 to 31 are the lowest of 32 bytes.
void put_pairs(std::uint8_t* to, const int* q) {
  for (std::size_t i = 0; i < kSuper; ++i)
    to[i / 128 * 32 + i % 32] |= byte((q[i] & 3) << i % 128 / 32 * 2);
}

void write_q2_k(std::byte* block, const float* x) {
  constexpr std::size_t kParts = 16, kPart = 16;
  int q[kSuper];
  float d[kParts], m[kParts], most_d = 0, most_m = 0;
  for (std::size_t j = 0; j < kParts; ++j) {
    float w[kPart];
    for (std::size_t i = 0; i < kPart; ++i) w[i] = std::fabs(x[j * kPart + i]);
    const Line line = best_line<3, kPart>(x + j * kPart, w, q + j * kPart, -.5F, 15, true);
    d[j] = line.d;
    m[j] = -line.m;
    most_d = std::max(most_d, d[j]);
    most_m = std::max(most_m, m[j]);
  }
  Fields fields(block);
  std::uint8_t *const scales = fields.zeros(kParts), *const low = fields.zeros(kSuper / 4);
  const float whole_d = fields.half(most_d / 15), whole_m = fields.half(most_m / 15);
  for (std::size_t j = 0; j < kParts; ++j) {
    const int s = most_d > 0 ? nearest(15 / most_d * d[j], 0, 15) : 0,
              t = most_m > 0 ? nearest(15 / most_m * m[j], 0, 15) : 0;
    scales[j] = byte(s | t << 4);
    const float step = whole_d * static_cast<float>(s), least = whole_m * static_cast<float>(t);
    if (step == 0) continue;
    for (std::size_t i = j * kPart; i < (j + 1) * kPart; ++i)
      q[i] = nearest((x[i] + least) / step, 0, 3);
  }
  put_pairs(low, q);
}

void write_q3_k(std::byte* block, const float* x) {
  constexpr std::size_t kParts = 16, kPart = 16;
  int q[kSuper];
  float d[kParts];
  for (std::size_t j = 0; j < kParts; ++j) d[j] = best_scale_of_q3(x + j * kPart, q + j * kPart);
  const float most = largest(d);
  Fields fields(block);
  std::uint8_t *const high = fields.zeros(32), *const low = fields.zeros(64),
                      *const scales = fields.zeros(12);
  const float inverse = most != 0 ? -32 / most : 0;
  const float whole = fields.half(most != 0 ? 1 / inverse : 0);
  for (std::size_t j = 0; j < kParts; ++j) {
    const int s = most != 0 ? nearest(inverse * d[j], -32, 31) : -32;
    if (most != 0) {
      scales[j % 8] |= byte(((s + 32) & 15) << (j < 8 ? 0 : 4));
      scales[8 + j % 4] |= byte((s + 32) >> 4 << j / 4 * 2);
    }
    const float step = whole * static_cast<float>(s);
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
void write_q4_k_or_q5_k(std::byte* block, const float* x) {
  constexpr std::size_t kParts = 8, kPart = 32;
  constexpr int kMost = kFive ? 31 : 15;
  int q[kSuper];
  float d[kParts], m[kParts], most_d = 0, most_m = 0;
  for (std::size_t j = 0; j < kParts; ++j) {
    const float* const part = x + j * kPart;
    float squares = 0, w[kPart];
    for (std::size_t i = 0; i < kPart; ++i) squares += part[i] * part[i];
    const float mean = std::sqrt(squares / kPart);
    for (std::size_t i = 0; i < kPart; ++i) w[i] = mean + std::fabs(part[i]);
    const Line line = best_line<kMost, kPart>(part, w, q + j * kPart, kFive ? -.5F : -1.0F,
                                              kFive ? 15 : 20, false);
    d[j] = line.d;
    m[j] = -line.m;
    most_d = std::max(most_d, d[j]);
    most_m = std::max(most_m, m[j]);
  }
  const float inverse_d = most_d > 0 ? 63 / most_d : 0, inverse_m = most_m > 0 ? 63 / most_m : 0;
  Fields fields(block);
  const float whole_d = fields.half(most_d / 63), whole_m = fields.half(most_m / 63);
  std::uint8_t* const scales = fields.zeros(12);
  std::uint8_t* const high = kFive ? fields.zeros(32) : nullptr;
  std::uint8_t* const low = fields.zeros(128);
  for (std::size_t j = 0; j < kParts; ++j) {
    const int s = nearest(inverse_d * d[j], 0, 63), t = nearest(inverse_m * m[j], 0, 63);
    if (j < 4) {
      scales[j] = byte(s);
      scales[j + 4] = byte(t);
    } else {
      scales[j + 4] = byte((s & 15) | (t & 15) << 4);
      scales[j - 4] |= byte(s >> 4 << 6);
      scales[j] |= byte(t >> 4 << 6);
    }
    const float step = whole_d * static_cast<float>(s), least = whole_m * static_cast<float>(t);
    if (step == 0) continue;
    for (std::size_t i = j * kPart; i < (j + 1) * kPart; ++i)
      q[i] = nearest((x[i] + least) / step, 0, kMost);
  }
  for (std::size_t i = 0; i < kSuper; ++i) {
    low[i / 64 * 32 + i % 32] |= byte((q[i] & 15) << (i % 64 < 32 ? 0 : 4));
    if constexpr (kFive) high[i % 32] |= byte(q[i] >> 4 << i / 32);
  }
}

void write_q6_k(std::byte* block, const float* x) {
  constexpr std::size_t kParts = 16, kPart = 16;
  int q[kSuper];
  float d[kParts];
  for (std::size_t j = 0; j < kParts; ++j) d[j] = best_scale_of_q6(x + j * kPart, q + j * kPart);
  const float most = largest(d);
  Fields fields(block);
  std::uint8_t *const low = fields.zeros(128), *const high = fields.zeros(64),
                      *const scales = fields.zeros(kParts);
  if (std::fabs(most) < kNothing) {
    fields.half(0);
    return;
  }
  const float inverse = -128 / most, whole = fields.half(1 / inverse);
  for (std::size_t j = 0; j < kParts; ++j) {
    const int s = nearest(inverse * d[j], -128, 127);
    scales[j] = byte(s);
    const float step = whole * static_cast<float>(s);
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

using Quantize = void (*)(std::byte* block, const float* numbers);

Quantize quantizer(GgufType type) {
  switch (type) {
    case GgufType::q4_0:
      return write_short<false, false>;
    case GgufType::q4_1:
      return write_short<false, true>;
    case GgufType::q5_0:
      return write_short<true, false>;
    case GgufType::q5_1:
      return write_short<true, true>;
    case GgufType::q8_0:
      return write_q8_0;
    case GgufType::q2_k:
      return write_q2_k;
    case GgufType::q3_k:
      return write_q3_k;
    case GgufType::q4_k:
      return write_q4_k_or_q5_k<false>;
    case GgufType::q5_k:
      return write_q4_k_or_q5_k<true>;
    case GgufType::q6_k:
      return write_q6_k;
    default:
      return nullptr;
  }
}

}  // namespace

void quantize(GgufType type, std::byte* blocks, std::span<const float> numbers) {
  const GgufBlocks& of = *gguf_blocks(type);
  const Quantize write = quantizer(type);
  const auto count = static_cast<std::size_t>(of.elements);
  assert(write != nullptr && numbers.size() % count == 0);
  for (; !numbers.empty(); numbers = numbers.subspan(count), blocks += of.bytes)
    write(blocks, numbers.data());
}

}  // namespace mt
