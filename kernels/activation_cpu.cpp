#include "kernels/activation.h"

#include <cmath>
#include <numbers>
#include <type_traits>

#include "kernels/loops.h"
#include "kernels/sigmoid.h"
#include "kernels/simd.h"

namespace mt::cpu {
namespace {

template <class T>
constexpr T kRoot = T(0.79788456080286535588);  // sqrt(2 / pi)
template <class T>
constexpr T kCubic = T(0.044715);

template <class T>
T gelu(T x, GeluForm form) {
  if (form == GeluForm::quick) return x * sigmoid(T(kQuickGelu) * x);
  if (form == GeluForm::tanh)
    return x / 2 * (1 + std::tanh(kRoot<T> * (x + kCubic<T> * x * x * x)));
  return x / 2 * (1 + std::erf(x / std::numbers::sqrt2_v<T>));
}

template <class T>
T gelu_slope(T x, GeluForm form) {
  if (form == GeluForm::quick) {
    const T s = sigmoid(T(kQuickGelu) * x);
    return s + T(kQuickGelu) * x * s * (1 - s);
  }
  if (form == GeluForm::tanh) {
    const T t = std::tanh(kRoot<T> * (x + kCubic<T> * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * kRoot<T> * (1 + 3 * kCubic<T> * x * x);
  }
  const T density = std::exp(-x * x / 2) * std::numbers::inv_sqrtpi_v<T> / std::numbers::sqrt2_v<T>;
  return (1 + std::erf(x / std::numbers::sqrt2_v<T>)) / 2 + x * density;
}

}  // namespace

template <class T>
void gelu_forward(T* y, const T* x, std::int64_t count, GeluForm form) {
  for_blocks(count, kBlock, [&](std::int64_t first, std::int64_t last) {
    if constexpr (std::is_same_v<T, float>)
      return simd::gelu_forward(y + first, x + first, last - first, form);
    for (std::int64_t i = first; i < last; ++i) y[i] = gelu(x[i], form);
  });
}

template <class T>
void gelu_backward(T* dx, const T* dy, const T* x, std::int64_t count, GeluForm form) {
  for_blocks(count, kBlock, [&](std::int64_t first, std::int64_t last) {
    if constexpr (std::is_same_v<T, float>)
      return simd::gelu_backward(dx + first, dy + first, x + first, last - first, form);
    for (std::int64_t i = first; i < last; ++i) dx[i] = dy[i] * gelu_slope(x[i], form);
  });
}

template <class T>
void relu_forward(T* y, const T* x, std::int64_t count) {
  for_blocks(count, kBlock, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) y[i] = x[i] < 0 ? 0 : x[i];
  });
}

template <class T>
void relu_backward(T* dx, const T* dy, const T* x, std::int64_t count) {
  for_blocks(count, kBlock, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) dx[i] = x[i] > 0 ? dy[i] : 0;
  });
}

template <class T>
void squared_relu_forward(T* y, const T* x, std::int64_t count) {
  for_blocks(count, kBlock, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) y[i] = x[i] < 0 ? 0 : x[i] * x[i];
  });
}

template <class T>
void squared_relu_backward(T* dx, const T* dy, const T* x, std::int64_t count) {
  for_blocks(count, kBlock, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) dx[i] = x[i] < 0 ? 0 : 2 * x[i] * dy[i];
  });
}

template <class T>
void tanh_forward(T* y, const T* x, std::int64_t count) {
  for_blocks(count, kBlock, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) y[i] = std::tanh(x[i]);
  });
}

template <class T>
void tanh_backward(T* dx, const T* dy, const T* y, std::int64_t count) {
  for_blocks(count, kBlock, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) dx[i] = dy[i] * (1 - y[i] * y[i]);
  });
}

template <class T>
void swiglu_forward(T* y, const T* x, std::int64_t rows, std::int64_t cols) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t first, std::int64_t last) {
    if constexpr (std::is_same_v<T, float>)
      return simd::swiglu_forward(y + first * cols, x + 2 * first * cols, last - first, cols);
    for (std::int64_t r = first; r < last; ++r)
      for (std::int64_t c = 0; c < cols; ++c) {
        const T gate = x[2 * r * cols + c], up = x[(2 * r + 1) * cols + c];
        y[r * cols + c] = gate * sigmoid(gate) * up;
      }
  });
}

template <class T>
void swiglu_backward(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t cols) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t first, std::int64_t last) {
    if constexpr (std::is_same_v<T, float>)
      return simd::swiglu_backward(dx + 2 * first * cols, dy + first * cols, x + 2 * first * cols,
                                   last - first, cols);
    for (std::int64_t r = first; r < last; ++r)
      for (std::int64_t c = 0; c < cols; ++c) {
        const T gate = x[2 * r * cols + c], up = x[(2 * r + 1) * cols + c], d = dy[r * cols + c];
        const T s = sigmoid(gate);
        dx[2 * r * cols + c] = d * up * s * (1 + gate * (1 - s));
        dx[(2 * r + 1) * cols + c] = d * gate * s;
      }
  });
}

template <class T>
void geglu_forward(T* y, const T* x, std::int64_t rows, std::int64_t cols) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t first, std::int64_t last) {
    if constexpr (std::is_same_v<T, float>)
      return simd::geglu_forward(y + first * cols, x + 2 * first * cols, last - first, cols);
    for (std::int64_t r = first; r < last; ++r)
      for (std::int64_t c = 0; c < cols; ++c)
        y[r * cols + c] = gelu(x[2 * r * cols + c], GeluForm::tanh) * x[(2 * r + 1) * cols + c];
  });
}

template <class T>
void geglu_backward(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t cols) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t first, std::int64_t last) {
    if constexpr (std::is_same_v<T, float>)
      return simd::geglu_backward(dx + 2 * first * cols, dy + first * cols, x + 2 * first * cols,
                                  last - first, cols);
    for (std::int64_t r = first; r < last; ++r)
      for (std::int64_t c = 0; c < cols; ++c) {
        const T gate = x[2 * r * cols + c], up = x[(2 * r + 1) * cols + c], d = dy[r * cols + c];
        dx[2 * r * cols + c] = d * up * gelu_slope(gate, GeluForm::tanh);
        dx[(2 * r + 1) * cols + c] = d * gelu(gate, GeluForm::tanh);
      }
  });
}

template <class T>
void clamped_forward(T* y, const T* x, std::int64_t rows, std::int64_t cols,
                     const ClampedGate& of) {
  const T limit = of.limit > 0 ? static_cast<T>(of.limit) : std::numeric_limits<T>::infinity();
  const T slope = static_cast<T>(kQuickGelu), offset = static_cast<T>(of.offset);
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r)
      for (std::int64_t c = 0; c < cols; ++c) {
        const T gate = std::min(x[2 * r * cols + c], limit),
                up = std::clamp(x[(2 * r + 1) * cols + c], -limit, limit);
        y[r * cols + c] = gate * sigmoid(slope * gate) * (up + offset);
      }
  });
}

template <class T>
void clamped_backward(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t cols,
                      const ClampedGate& of) {
  const T limit = of.limit > 0 ? static_cast<T>(of.limit) : std::numeric_limits<T>::infinity();
  const T slope = static_cast<T>(kQuickGelu), offset = static_cast<T>(of.offset);
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r)
      for (std::int64_t c = 0; c < cols; ++c) {
        const T at_gate = x[2 * r * cols + c], at_up = x[(2 * r + 1) * cols + c],
                d = dy[r * cols + c], gate = std::min(at_gate, limit),
                up = std::clamp(at_up, -limit, limit), s = sigmoid(slope * gate);
        dx[2 * r * cols + c] =
            at_gate <= limit ? d * (up + offset) * s * (1 + slope * gate * (1 - s)) : T(0);
        dx[(2 * r + 1) * cols + c] = -limit <= at_up && at_up <= limit ? d * gate * s : T(0);
      }
  });
}

template void gelu_forward(float*, const float*, std::int64_t, GeluForm);
template void gelu_backward(float*, const float*, const float*, std::int64_t, GeluForm);
template void relu_forward(float*, const float*, std::int64_t);
template void relu_backward(float*, const float*, const float*, std::int64_t);
template void squared_relu_forward(float*, const float*, std::int64_t);
template void squared_relu_backward(float*, const float*, const float*, std::int64_t);
template void tanh_forward(float*, const float*, std::int64_t);
template void tanh_backward(float*, const float*, const float*, std::int64_t);
template void relu_forward(double*, const double*, std::int64_t);
template void relu_backward(double*, const double*, const double*, std::int64_t);
template void squared_relu_forward(double*, const double*, std::int64_t);
template void squared_relu_backward(double*, const double*, const double*, std::int64_t);
template void tanh_forward(double*, const double*, std::int64_t);
template void tanh_backward(double*, const double*, const double*, std::int64_t);
template void swiglu_forward(float*, const float*, std::int64_t, std::int64_t);
template void swiglu_backward(float*, const float*, const float*, std::int64_t, std::int64_t);
template void geglu_forward(float*, const float*, std::int64_t, std::int64_t);
template void clamped_forward(float*, const float*, std::int64_t, std::int64_t, const ClampedGate&);
template void clamped_backward(float*, const float*, const float*, std::int64_t, std::int64_t,
                               const ClampedGate&);
template void geglu_backward(float*, const float*, const float*, std::int64_t, std::int64_t);
template void gelu_forward(double*, const double*, std::int64_t, GeluForm);
template void gelu_backward(double*, const double*, const double*, std::int64_t, GeluForm);
template void swiglu_forward(double*, const double*, std::int64_t, std::int64_t);
template void swiglu_backward(double*, const double*, const double*, std::int64_t, std::int64_t);
template void geglu_forward(double*, const double*, std::int64_t, std::int64_t);
template void clamped_forward(double*, const double*, std::int64_t, std::int64_t,
                              const ClampedGate&);
template void clamped_backward(double*, const double*, const double*, std::int64_t, std::int64_t,
                               const ClampedGate&);
template void geglu_backward(double*, const double*, const double*, std::int64_t, std::int64_t);

}  // namespace mt::cpu
