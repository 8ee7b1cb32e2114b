// Blocks by an importance matrix.
#include <cassert>
#include <utility>

#include "ckpt/gguf_quantize.h"
#include "ckpt/gguf_search.h"

namespace mt {
namespace {

using namespace gguf;

constexpr Tries kTries{-.9F, .05F, 36};

// Gives the whole numbers, 0 to kMost, and the d of d q for scales of parts, none below zero: of
// nine roundings that of least Σ w (x - d q)², whose q are then changed one by one while
// (Σ w x q)² / Σ w q² grows, at most five times.
template <int kMost, std::size_t kCount>
float best_scale_of_scales(const float* x, const float* w, int* q) {
  std::fill_n(q, kCount, 0);
  const float most = *std::max_element(x, x + kCount);
  if (most < kNothing) return 0;
  const auto error_at = [&](float inverse) {
    float error = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const float off = x[i] - 1 / inverse * static_cast<float>(nearest(inverse * x[i], 0, kMost));
      error += w[i] * off * off;
    }
    return error;
  };
  float inverse = kMost / most, least = error_at(inverse);
  for (int k = -4; k <= 4; ++k) {
    const float other = (.1F * static_cast<float>(k) + kMost) / most;
    if (const float error = k != 0 ? error_at(other) : least; error < least)
      least = error, inverse = other;
  }
  Sums sums;
  for (std::size_t i = 0; i < kCount; ++i) {
    q[i] = nearest(inverse * x[i], 0, kMost);
    const auto l = static_cast<float>(q[i]);
    sums.products += w[i] * x[i] * l;
    sums.squares += w[i] * l * l;
  }
  return change_one_by_one<kCount>(x, [&](std::size_t i) { return w[i]; }, q, sums,
                                   {0, kMost, true});
}

float sum_of_squares(const float* x, std::size_t count) {
  float sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += x[i] * x[i];
  return sum;
}

// w = importance sqrt(sigma2 + x²); their sum.
float weigh(float* w, const float* x, const float* importance, float sigma2, std::size_t count) {
  float sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    w[i] = importance[i] * std::sqrt(sigma2 + x[i] * x[i]);
    sum += w[i];
  }
  return sum;
}

// `sigma2` is that of the row.
template <bool kFive, bool kLeast>
void write_short(std::byte* block, const float* x, const float* importance, float sigma2) {
  float w[kShort];
  int q[kShort];
  weigh(w, x, importance, sigma2, kShort);
  Line line;
  if constexpr (kLeast) {
    constexpr int kMost = kFive ? 31 : 15;
    line = best_line<kMost, kShort>(x, w, q, kTries);
  } else {
    constexpr int kMiddle = kFive ? 16 : 8;
    line.d = best_scale<kMiddle, kShort>(x, w, q);
    for (int& code : q) code += kMiddle;
  }
  put_short<kFive, kLeast>(block, q, line.d, line.m);
}

void write_q2_k(std::byte* block, const float* x, const float* importance) {
  constexpr std::size_t kParts = 16, kPart = 16;
  int q[kSuper], s[kParts], t[kParts];
  float d[kParts], m[kParts], of_part[kParts];
  const float sigma2 = sum_of_squares(x, kSuper) / kSuper;
  for (std::size_t j = 0; j < kParts; ++j) {
    float w[kPart];
    of_part[j] = weigh(w, x + j * kPart, importance + j * kPart, sigma2, kPart);
    const Line line = best_line<3, kPart>(x + j * kPart, w, q + j * kPart, kTries);
    d[j] = line.d;
    m[j] = -line.m;
  }
  const float whole_d = best_scale_of_scales<15, kParts>(d, of_part, s),
              whole_m = best_scale_of_scales<15, kParts>(m, of_part, t);
  put_q2_k(block, x, q, s, t, whole_d, whole_m);
}

void write_q3_k(std::byte* block, const float* x, const float* importance) {
  constexpr std::size_t kParts = 16, kPart = 16;
  int q[kSuper], s[kParts];
  float d[kParts], of_part[kParts];
  const float sigma2 = 2 * sum_of_squares(x, kSuper) / kSuper;
  for (std::size_t j = 0; j < kParts; ++j) {
    float w[kPart];
    of_part[j] = weigh(w, x + j * kPart, importance + j * kPart, sigma2, kPart);
    d[j] = best_scale<4, kPart>(x + j * kPart, w, q + j * kPart);
  }
  const float whole_d = best_scale<32, kParts>(d, of_part, s);
  put_q3_k(block, x, q, s, whole_d);
}

template <bool kFive>
void write_q4_k_or_q5_k(std::byte* block, const float* x, const float* importance) {
  constexpr std::size_t kParts = 8, kPart = 32;
  int q[kSuper], s[kParts], t[kParts];
  float d[kParts], m[kParts], of_part[kParts];
  const float sigma2 = 2 * sum_of_squares(x, kSuper) / kSuper;
  for (std::size_t j = 0; j < kParts; ++j) {
    float w[kPart];
    of_part[j] = weigh(w, x + j * kPart, importance + j * kPart, sigma2, kPart);
    const Line line = best_line < kFive ? 31 : 15,
               kPart > (x + j * kPart, w, q + j * kPart, kTries);
    d[j] = line.d;
    m[j] = -line.m;
  }
  const float whole_d = best_scale_of_scales<63, kParts>(d, of_part, s),
              whole_m = best_scale_of_scales<63, kParts>(m, of_part, t);
  put_q4_k_or_q5_k<kFive>(block, x, q, s, t, whole_d, whole_m);
}

void write_q6_k(std::byte* block, const float* x, const float* importance) {
  constexpr std::size_t kParts = 16, kPart = 16;
  int q[kSuper];
  float d[kParts];
  for (std::size_t j = 0; j < kParts; ++j)
    d[j] = best_scale<32, kPart>(x + j * kPart, importance + j * kPart, q + j * kPart);
  put_q6_k(block, x, q, d);
}

// What writes a block of 32, and one of 256; a type has one of them, and the other is null.
using WriteShort = void (*)(std::byte*, const float*, const float*, float);
using WriteLong = void (*)(std::byte*, const float*, const float*);

std::pair<WriteShort, WriteLong> quantizer(GgufType type) {
  switch (type) {
    case GgufType::q4_0:
      return {write_short<false, false>, nullptr};
    case GgufType::q4_1:
      return {write_short<false, true>, nullptr};
    case GgufType::q5_0:
      return {write_short<true, false>, nullptr};
    case GgufType::q5_1:
      return {write_short<true, true>, nullptr};
    case GgufType::q2_k:
      return {nullptr, write_q2_k};
    case GgufType::q3_k:
      return {nullptr, write_q3_k};
    case GgufType::q4_k:
      return {nullptr, write_q4_k_or_q5_k<false>};
    case GgufType::q5_k:
      return {nullptr, write_q4_k_or_q5_k<true>};
    case GgufType::q6_k:
      return {nullptr, write_q6_k};
    default:
      return {nullptr, nullptr};
  }
}

}  // namespace

void quantize(GgufType type, std::byte* blocks, std::span<const float> rows,
              std::span<const float> importance) {
  const auto [write_short, write_long] = quantizer(type);
  if (importance.empty() || (write_short == nullptr && write_long == nullptr))
    return quantize(type, blocks, rows);
  const GgufBlocks& of = *gguf_blocks(type);
  const std::size_t count = static_cast<std::size_t>(of.elements), cols = importance.size();
  assert(cols % count == 0 && rows.size() % cols == 0);
  for (; !rows.empty(); rows = rows.subspan(cols)) {
    const float sigma2 =
        write_short != nullptr ? sum_of_squares(rows.data(), cols) / static_cast<float>(cols) : 0;
    for (std::size_t i = 0; i < cols; i += count, blocks += of.bytes)
      if (write_short != nullptr)
        write_short(blocks, rows.data() + i, importance.data() + i, sigma2);
      else
        write_long(blocks, rows.data() + i, importance.data() + i);
  }
}

}  // namespace mt
