// kernels/delta_norm.h: the norm and the gate behind the gated delta rule: RMSNorm of each value
// head's channels, times what z gates.
//   rstd[t, h] = 1 / sqrt(mean over c of y[t, h, c]^2 + eps)    n = y rstd
//   out[t, h, c] = n w[c] z sigmoid(z)
// where w is 1 more than what is stored if that is centred at zero.  Backward, with
// e = d_out w z sigmoid(z):
//   dy = rstd (e - n mean over c of (e n))        dw[c] += sum over t and h of d_out n z sigmoid(z)
//   dz = d_out n w sigmoid(z) (1 + z (1 - sigmoid(z)))
// y, out, dy, d_out: [tokens, values];  z, dz: parts of projected and d_projected
// (kernels/delta_shape.h), of which the others are not written;  w, dw: [value_dim];  rstd:
// [tokens, value_heads].  T: float or double.  On the GPU float, bf16 or fp16; sums and rstd are
// f32, dw is f32, or bf16 if T is, and is added up over parts of the tokens that depend on the
// shape.
#pragma once

#include <cstddef>

#include "kernels/cuda_types.h"
#include "kernels/delta_shape.h"

namespace mt {

struct DeltaNorm {
  double eps = 1e-6;
  bool zero_centered = false;
};

}  // namespace mt

namespace mt::cpu {
template <class T>
void delta_norm_forward(T* out, T* rstd, const T* y, const T* projected, const T* w,
                        const DeltaNorm& norm, const DeltaShape& shape);
template <class T>
void delta_norm_backward(T* dy, T* d_projected, T* dw, const T* d_out, const T* y,
                         const T* projected, const T* rstd, const T* w, const DeltaNorm& norm,
                         const DeltaShape& shape);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void delta_norm_forward(T* out, float* rstd, const T* y, const T* projected, const T* w,
                        const DeltaNorm& norm, const DeltaShape& shape, cudaStream_t stream);
std::size_t delta_norm_backward_work(const DeltaShape& shape);
template <class T, class G>
void delta_norm_backward(T* dy, T* d_projected, G* dw, const T* d_out, const T* y,
                         const T* projected, const float* rstd, const T* w, const DeltaNorm& norm,
                         const DeltaShape& shape, void* work, cudaStream_t stream);
}  // namespace mt::cuda
