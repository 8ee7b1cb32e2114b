#include "kernels/dropout.h"

#include <algorithm>

#include "kernels/loops.h"

namespace mt::cpu {
namespace {

constexpr std::int64_t kPart = 64;  // channels whose words are drawn at a time

// factor[i] for channels first + i of row `row`, i < kPart: 0 where dropped, else 1 / (1 - p).
template <class T>
void draw(T* factor, const Dropout& dropout, std::int64_t row, std::int64_t first) {
  const std::int64_t r = dropout.first_row + row;
  const T kept = static_cast<T>(1 / (1 - dropout.p));
  const std::uint32_t threshold = dropout.threshold();
  const auto word = [](std::int64_t x) { return static_cast<std::uint32_t>(x); };
  const std::uint32_t sample = word(dropout.record->first_sample + r / dropout.seq_length);
  const std::uint32_t position = word(r % dropout.seq_length);
  const std::int64_t begin = dropout.first_channel + first, skipped = begin % 4;
  for (std::int64_t i = -skipped; i < kPart; i += 4) {
    const Counter words = philox({word((begin + i) / 4), position, 0, sample}, dropout.key);
    for (std::int64_t n = std::max<std::int64_t>(0, -i); n < 4 && i + n < kPart; ++n)
      factor[i + n] = words[static_cast<std::size_t>(n)] >= threshold ? kept : 0;
  }
}

// y = residual + factor (x + bias); residual and bias may be null.
template <class T>
void combine(T* y, const T* residual, const T* x, const T* bias, const T* factor,
             std::int64_t count) {
  for (std::int64_t c = 0; c < count; ++c)
    y[c] = (residual ? residual[c] : 0) + factor[c] * (x[c] + (bias ? bias[c] : 0));
}

}  // namespace

template <class T>
void bias_dropout_add(T* y, const T* residual, const T* x, const T* bias, std::int64_t rows,
                      std::int64_t cols, const Dropout& dropout) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t begin, std::int64_t end) {
    T factor[kPart];
    std::fill_n(factor, kPart, T(1));
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t c = 0; c < cols; c += kPart) {
        if (dropout.p > 0) draw(factor, dropout, r, c);
        const std::int64_t i = r * cols + c;
        combine(y + i, residual ? residual + i : nullptr, x + i, bias ? bias + c : nullptr, factor,
                std::min(kPart, cols - c));
      }
  });
}

template <class T>
void dropout_backward(T* dx, const T* dy, std::int64_t rows, std::int64_t cols,
                      const Dropout& dropout) {
  bias_dropout_add<T>(dx, nullptr, dy, nullptr, rows, cols, dropout);
}

template void bias_dropout_add(float*, const float*, const float*, const float*, std::int64_t,
                               std::int64_t, const Dropout&);
template void bias_dropout_add(double*, const double*, const double*, const double*, std::int64_t,
                               std::int64_t, const Dropout&);
template void dropout_backward(float*, const float*, std::int64_t, std::int64_t, const Dropout&);
template void dropout_backward(double*, const double*, std::int64_t, std::int64_t, const Dropout&);

}  // namespace mt::cpu
