// kernels/gated_norm.h: the gate and the norm behind a Mamba-2's scan: RMSNorm by groups of
// channels, of what the gate has left.
//   h = y z sigmoid(z)    rstd[t, g] = 1 / sqrt(mean over the group's c of h[t, c]^2 + eps)
//   out[t, c] = h[t, c] rstd[t, g] w[c]
// Backward, with n = h rstd and e = d_out w:
//   dh = rstd (e - n mean over the group of (e n))        dw[c] += sum_t d_out n
//   dy = dh z sigmoid(z)     dz = dh y sigmoid(z) (1 + z (1 - sigmoid(z)))
// y, out, dy, d_out: [tokens, inner];  z, dz: the first columns of projected and d_projected
// (kernels/mamba_shape.h), of which the others are not written;  w, dw: [inner];  rstd: [tokens,
// groups].  T: float or double.  On the GPU float, bf16 or fp16; sums and rstd are f32, dw is f32,
// or bf16 if T is, and is added up over parts of the tokens that depend on the shape, and on
// whether addresses are multiples of 16.
#pragma once

#include <cstddef>

#include "kernels/cuda_types.h"
#include "kernels/mamba_shape.h"

namespace mt::cpu {
template <class T>
void gated_norm_forward(T* out, T* rstd, const T* y, const T* projected, const T* w, double eps,
                        const MambaShape& shape);
template <class T>
void gated_norm_backward(T* dy, T* d_projected, T* dw, const T* d_out, const T* y,
                         const T* projected, const T* rstd, const T* w, const MambaShape& shape);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void gated_norm_forward(T* out, float* rstd, const T* y, const T* projected, const T* w, double eps,
                        const MambaShape& shape, cudaStream_t stream);
std::size_t gated_norm_backward_work(const MambaShape& shape);
template <class T, class G>
void gated_norm_backward(T* dy, T* d_projected, G* dw, const T* d_out, const T* y,
                         const T* projected, const float* rstd, const T* w, const MambaShape& shape,
                         void* work, cudaStream_t stream);
}  // namespace mt::cuda
