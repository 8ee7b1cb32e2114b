#include "ckpt/gguf_quantize.h"

#include <cassert>

#include "base/error.h"
#include "ckpt/gguf_search.h"

namespace mt {
namespace {

using namespace gguf;

// --- Of 32 --------------------------------------------------------------------------------------

template <bool kFive, bool kLeast>
void write_short(std::byte* block, const float* x) {
  constexpr int kMiddle = kFive ? 16 : 8, kMost = 2 * kMiddle - 1;
  const auto [least, most] = std::minmax_element(x, x + kShort);
  const float m = *least,
              d = kLeast ? (*most - m) / static_cast<float>(kMost)
                         : largest({x, kShort}) / -kMiddle,
              inverse = d == 0 ? 0 : 1 / d;
  int q[kShort];
  for (std::size_t i = 0; i < kShort; ++i) {
    const float steps =
        kLeast ? (x[i] - m) * inverse + .5F : x[i] * inverse + (static_cast<float>(kMiddle) + .5F);
    q[i] = whole(steps, 0, kMost);
  }
  put_short<kFive, kLeast>(block, q, d, m);
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

void write_mxfp4(std::byte* block, const float* x) {
  constexpr float kNumbers[] = {0, 1, 2, 3, 4, 6, 8, 12};  // twice E2M1's
  const float most = std::fabs(largest({x, kShort}));
  const int exponent =
      most > 0 ? std::max(0, static_cast<int>(std::floor(std::log2(most))) + 125) : 0;
  const float half = std::ldexp(1.0F, exponent - 128);
  const auto nearest_of = [&](float number) {
    int best = 0;
    float least = std::fabs(number);
    for (const int sign : {1, -1})
      for (int i = 1; i < 8; ++i)
        if (const float error = std::fabs(static_cast<float>(sign) * kNumbers[i] * half - number);
            error < least) {
          best = sign < 0 ? i + 8 : i;
          least = error;
        }
    return best;
  };
  Fields fields(block);
  fields.number(static_cast<std::uint8_t>(exponent));
  for (std::size_t i = 0; i < kShort / 2; ++i)
    fields.number(static_cast<std::uint8_t>(nearest_of(x[i]) | nearest_of(x[i + kShort / 2]) << 4));
}

// --- Of 256 -------------------------------------------------------------------------------------

// The q, -4 to 3, and their d, by weights x², changed one by one while (Σ w x q)² / Σ w q² grows,
// at most five times.
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
  return change_one_by_one<kCount>(x, [&](std::size_t i) { return x[i] * x[i]; }, q, sums,
                                   {-kMiddle, kMiddle - 1, false});
}

void write_q2_k(std::byte* block, const float* x) {
  constexpr std::size_t kParts = 16, kPart = 16;
  int q[kSuper], s[kParts], t[kParts];
  float d[kParts], m[kParts], most_d = 0, most_m = 0;
  for (std::size_t j = 0; j < kParts; ++j) {
    float w[kPart];
    for (std::size_t i = 0; i < kPart; ++i) w[i] = std::fabs(x[j * kPart + i]);
    const Line line = best_line<3, kPart>(x + j * kPart, w, q + j * kPart, {-.5F, .1F, 15, true});
    d[j] = line.d;
    m[j] = -line.m;
    most_d = std::max(most_d, d[j]);
    most_m = std::max(most_m, m[j]);
  }
  for (std::size_t j = 0; j < kParts; ++j) {
    s[j] = most_d > 0 ? nearest(15 / most_d * d[j], 0, 15) : 0;
    t[j] = most_m > 0 ? nearest(15 / most_m * m[j], 0, 15) : 0;
  }
  put_q2_k(block, x, q, s, t, most_d / 15, most_m / 15);
}

void write_q3_k(std::byte* block, const float* x) {
  constexpr std::size_t kParts = 16, kPart = 16;
  int q[kSuper], s[kParts];
  float d[kParts];
  for (std::size_t j = 0; j < kParts; ++j) d[j] = best_scale_of_q3(x + j * kPart, q + j * kPart);
  const float most = largest(d), inverse = most != 0 ? -32 / most : 0;
  for (std::size_t j = 0; j < kParts; ++j)
    s[j] = most != 0 ? nearest(inverse * d[j], -32, 31) : -32;
  put_q3_k(block, x, q, s, most != 0 ? 1 / inverse : 0);
}

template <bool kFive>
void write_q4_k_or_q5_k(std::byte* block, const float* x) {
  constexpr std::size_t kParts = 8, kPart = 32;
  constexpr Tries kTries{kFive ? -.5F : -1.0F, .1F, kFive ? 15 : 20};
  int q[kSuper], s[kParts], t[kParts];
  float d[kParts], m[kParts], most_d = 0, most_m = 0;
  for (std::size_t j = 0; j < kParts; ++j) {
    const float* const part = x + j * kPart;
    float squares = 0, w[kPart];
    for (std::size_t i = 0; i < kPart; ++i) squares += part[i] * part[i];
    const float mean = std::sqrt(squares / kPart);
    for (std::size_t i = 0; i < kPart; ++i) w[i] = mean + std::fabs(part[i]);
    const Line line = best_line < kFive ? 31 : 15, kPart > (part, w, q + j * kPart, kTries);
    d[j] = line.d;
    m[j] = -line.m;
    most_d = std::max(most_d, d[j]);
    most_m = std::max(most_m, m[j]);
  }
  const float inverse_d = most_d > 0 ? 63 / most_d : 0, inverse_m = most_m > 0 ? 63 / most_m : 0;
  for (std::size_t j = 0; j < kParts; ++j) {
    s[j] = nearest(inverse_d * d[j], 0, 63);
    t[j] = nearest(inverse_m * m[j], 0, 63);
  }
  put_q4_k_or_q5_k<kFive>(block, x, q, s, t, most_d / 63, most_m / 63);
}

void write_q6_k(std::byte* block, const float* x) {
  constexpr std::size_t kParts = 16, kPart = 16;
  int q[kSuper];
  float d[kParts];
  for (std::size_t j = 0; j < kParts; ++j) {
    float w[kPart];
    for (std::size_t i = 0; i < kPart; ++i) w[i] = x[j * kPart + i] * x[j * kPart + i];
    d[j] = best_scale<32, kPart>(x + j * kPart, w, q + j * kPart);
  }
  put_q6_k(block, x, q, d);
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
    case GgufType::mxfp4:
      return write_mxfp4;
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
