// kernels/xielu.h: an MLP's activation with slopes that are learned (Huang, Schlag:
// arXiv:2411.13010, eq. 14), as transformers' XIELUActivation computes it.
//   y = p x^2 + b x                              where x > 0,   p = softplus(alpha_p)
//   y = (expm1(min(x, eps)) - x) n + b x         elsewhere,     n = b + softplus(alpha_n)
// x, y, dx, dy: [count];  alpha_p, alpha_n, b, eps: [1], of a layer.  Backward adds the gradients
// of the alphas, in blocks of 4096 elements that are summed in f64 and added in order; null: not
// wanted.  T: float or double.
#pragma once

#include <cstdint>

namespace mt {
template <class T>
struct XieluNumbers {
  const T *alpha_p, *alpha_n, *beta, *eps;
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void xielu_forward(T* y, const T* x, const XieluNumbers<T>& of, std::int64_t count);
template <class T>
void xielu_backward(T* dx, T* d_alpha_p, T* d_alpha_n, const T* dy, const T* x,
                    const XieluNumbers<T>& of, std::int64_t count);
}  // namespace mt::cpu
