// kernels/activation.h: the non-linearities between the two products of an MLP, and that of a
// pooler.
//   gelu tanh  y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))       (Hendrycks, Gimpel:
//   gelu erf   y = x/2 (1 + erf(x / sqrt 2))                            arXiv:1606.08415)
//   gelu quick y = x sigmoid(1.702 x)                                   (the same, section 2)
//   relu       y = max(x, 0)
//   relu^2     y = max(x, 0)^2                                (So et al.: arXiv:2109.08668)
//   swiglu     y = silu(gate) up,  silu(a) = a / (1 + exp(-a))
//   geglu      y = gelu(gate) up,  in its tanh form           (Shazeer: arXiv:2002.05202)
//   clamped    y = g sigmoid(1.702 g) (u + offset),  g = min(gate, limit), u = up between -limit
//   and
//              limit                                        (OpenAI: arXiv:2508.10925, section 2.3)
//   tanh       y = tanh x
// gelu, relu, relu^2, tanh: x, y, dx, dy: [count].
// swiglu, geglu, clamped: x, dx: [rows, 2 cols], a row is gate then up;  y, dy: [rows, cols].
// Backward takes the input x, but tanh's the output y.  T: float or double; on the GPU float, bf16
// or fp16.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {
enum class GeluForm : std::uint8_t { tanh, erf, quick };
inline constexpr double kQuickGelu = 1.702;
struct ClampedGate {
  double limit = 0, offset = 0;  // 0: no limit
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void gelu_forward(T* y, const T* x, std::int64_t count, GeluForm form);
template <class T>
void gelu_backward(T* dx, const T* dy, const T* x, std::int64_t count, GeluForm form);
template <class T>
void relu_forward(T* y, const T* x, std::int64_t count);
template <class T>
void relu_backward(T* dx, const T* dy, const T* x, std::int64_t count);
template <class T>
void squared_relu_forward(T* y, const T* x, std::int64_t count);
template <class T>
void squared_relu_backward(T* dx, const T* dy, const T* x, std::int64_t count);
template <class T>
void tanh_forward(T* y, const T* x, std::int64_t count);
template <class T>
void tanh_backward(T* dx, const T* dy, const T* y, std::int64_t count);
template <class T>
void swiglu_forward(T* y, const T* x, std::int64_t rows, std::int64_t cols);
template <class T>
void swiglu_backward(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t cols);
template <class T>
void geglu_forward(T* y, const T* x, std::int64_t rows, std::int64_t cols);
template <class T>
void geglu_backward(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t cols);
template <class T>
void clamped_forward(T* y, const T* x, std::int64_t rows, std::int64_t cols, const ClampedGate& of);
template <class T>
void clamped_backward(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t cols,
                      const ClampedGate& of);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void gelu_forward(T* y, const T* x, std::int64_t count, GeluForm form, cudaStream_t stream);
template <class T>
void gelu_backward(T* dx, const T* dy, const T* x, std::int64_t count, GeluForm form,
                   cudaStream_t stream);
template <class T>
void relu_forward(T* y, const T* x, std::int64_t count, cudaStream_t stream);
template <class T>
void relu_backward(T* dx, const T* dy, const T* x, std::int64_t count, cudaStream_t stream);
template <class T>
void squared_relu_forward(T* y, const T* x, std::int64_t count, cudaStream_t stream);
template <class T>
void squared_relu_backward(T* dx, const T* dy, const T* x, std::int64_t count, cudaStream_t stream);
template <class T>
void tanh_forward(T* y, const T* x, std::int64_t count, cudaStream_t stream);
template <class T>
void tanh_backward(T* dx, const T* dy, const T* y, std::int64_t count, cudaStream_t stream);
template <class T>
void swiglu_forward(T* y, const T* x, std::int64_t rows, std::int64_t cols, cudaStream_t stream);
template <class T>
void swiglu_backward(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t cols,
                     cudaStream_t stream);
template <class T>
void geglu_forward(T* y, const T* x, std::int64_t rows, std::int64_t cols, cudaStream_t stream);
template <class T>
void geglu_backward(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t cols,
                    cudaStream_t stream);
template <class T>
void clamped_forward(T* y, const T* x, std::int64_t rows, std::int64_t cols, const ClampedGate& of,
                     cudaStream_t stream);
template <class T>
void clamped_backward(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t cols,
                      const ClampedGate& of, cudaStream_t stream);
}  // namespace mt::cuda
