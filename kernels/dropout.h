// kernels/dropout.h: dropout as a function of place (DESIGN D5): element (sample, position,
// channel) is kept iff word channel % 4 of philox({channel / 4, position, 0, sample}, key) >=
// threshold(p); kept values are divided by 1 - p.
//   forward   y = residual + dropout(x + bias)      y may be residual or x
//   backward  dx = dropout(dy)                      dx may be dy
// x, y, residual, dx, dy: [rows, cols]; row r, with n = first_row + r, belongs to sample
// record->first_sample + n / seq_length and position n % seq_length, and column c is channel
// first_channel + c;  bias: [cols];  residual and
// bias may be null.  T: float or double; on the GPU float, bf16 or fp16, and record lies there.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "kernels/cuda_types.h"
#include "kernels/step_record.h"

namespace mt {
struct Dropout {
  double p = 0;  // 0: nothing is dropped, nothing is drawn
  RandomKey key;
  std::int64_t seq_length = 1;
  std::int64_t first_row = 0;  // among the micro-batch's
  std::int64_t first_channel = 0;
  const StepRecord* record = nullptr;
  std::int64_t of_sample = 1;  // sequences of a sample that attention has (attention.h)
  std::uint32_t threshold() const { return static_cast<std::uint32_t>(p * 0x1p32); }
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void bias_dropout_add(T* y, const T* residual, const T* x, const T* bias, std::int64_t rows,
                      std::int64_t cols, const Dropout& dropout);
template <class T>
void dropout_backward(T* dx, const T* dy, std::int64_t rows, std::int64_t cols,
                      const Dropout& dropout);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void bias_dropout_add(T* y, const T* residual, const T* x, const T* bias, std::int64_t rows,
                      std::int64_t cols, const Dropout& dropout, cudaStream_t stream);
template <class T>
void dropout_backward(T* dx, const T* dy, std::int64_t rows, std::int64_t cols,
                      const Dropout& dropout, cudaStream_t stream);
}  // namespace mt::cuda
