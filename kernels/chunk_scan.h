// kernels/chunk_scan.h: a Mamba-2's states and what it reads of them: the scan of state space
// duality (Dao, Gu 2024: arXiv:2405.21060), of each head by itself.  By tokens,
//   dt[t] = log(1 + e^(raw[t] + dt_bias))                  A = -e^A_log
//   S[t] = e^(dt[t] A) S[t - 1] + dt[t] x[t] B[t]^T        y[t] = S[t] C[t] + D x[t]
// with S[t - 1] zero where a document begins.  It is evaluated by chunks (section 6), where a[i] is
// the sum of dt A from the chunk's first token to i, a_last that of all, and S what comes into it:
//   y[i]  = sum over j <= i of (C[i] B[j]) e^(a[i] - a[j]) dt[j] x[j] + e^a[i] S C[i] + D x[i]
//   S_out = e^a_last S + sum over j of e^(a_last - a[j]) dt[j] x[j] B[j]^T
// where of another document than i or the chunk's last token neither j nor S counts.  Backward,
// with dS_out the gradient of what goes out and V[i] = y[i] - D x[i]:
//   G[j]  = sum over i >= j of (C[i] B[j]) e^(a[i] - a[j]) dy[i] + e^(a_last - a[j]) dS_out B[j]
//   dx[j] = dt[j] G[j] + D dy[j]                           dD += dy[j] x[j]
//   K[i, j] = sum over a group's heads of (dy[i] x[j]) e^(a[i] - a[j]) dt[j]
//   dC[i] = sum over j of K[i, j] B[j] + over heads of e^a[i] S^T dy[i]
//   dB[j] = sum over i of K[i, j] C[i] + over heads of e^(a_last - a[j]) dt[j] dS_out^T x[j]
//   dS    = e^a_last dS_out + sum over i of e^a[i] dy[i] C[i]^T
//   da[i] = dy[i] V[i] - dt[i] x[i] G[i], and for the last, e^a_last <dS_out, S> and the sum over
//           j of dt[j] x[j] e^(a_last - a[j]) dS_out B[j] more
//   R[l]  = sum over i >= l of da[i] in the chunk          d(dt[l]) = A R[l] + x[l] G[l]
//   dA_log += A sum over l of dt[l] R[l]                   d_raw = d(dt) sigmoid(raw + dt_bias)
// x, B, C are the parts of `mixed`, their gradients those of d_mixed, [tokens, shape.mixed()]; raw
// is the end of `projected`, d_raw that of d_projected, of which nothing else is written;  y, dy:
// [tokens, inner];  dt_bias, A_log, D and their gradients: [heads];  first_key: [tokens] i32, where
// each token's document begins in its sequence, or null.  T: float or double.  On the GPU float,
// bf16 or fp16, sums and states in f32; gradients of what heads have are f32, or bf16 if T is, and
// are added up over chunks in order.  The CPU adds them up in f64.  On the GPU a scan of one token
// a sequence reads what heads have, slots, positions and states before the kernel queued ahead of
// it has ended (dependent.cuh), which must not be what writes them.
#pragma once

#include <cstddef>

#include "kernels/cuda_types.h"
#include "kernels/mamba_shape.h"

namespace mt {

inline constexpr std::int64_t kMostChunk = 256;

// ScanWeights: what each head has: [heads].
template <class T>
struct ScanWeights {
  const T *dt_bias, *a_log, *d;
};
template <class G>
struct ScanGradients {
  G *dt_bias, *a_log, *d;
};

// ScanEnds: what a scan begins with, and where it puts what it ends with, which may be the same
// place: null, or states in the slots of a cache, [slots, heads, head_dim, state_dim].  ahead: what
// is read behind the scan, at a multiple of 16 bytes: on a GPU a scan of one token brings it into
// the L2 meanwhile; null: nothing.
template <class Sum>
struct ScanEnds {
  const Sum* before = nullptr;
  Sum* after = nullptr;
  CacheSlots slots = {};
  const void* ahead = nullptr;
  std::size_t ahead_bytes = 0;
};

}  // namespace mt

namespace mt::cpu {
template <class T>
void chunk_scan_forward(T* y, const T* mixed, const T* projected, const ScanWeights<T>& weights,
                        const std::int32_t* first_key, const ScanEnds<T>& ends,
                        const MambaShape& shape);
// Goes back over a scan that had no ends.
template <class T>
void chunk_scan_backward(T* d_mixed, T* d_projected, const ScanGradients<T>& gradients, const T* dy,
                         const T* mixed, const T* projected, const ScanWeights<T>& weights,
                         const std::int32_t* first_key, const MambaShape& shape);
}  // namespace mt::cpu

namespace mt::cuda {
// Bytes that the forward and the backward need beside their arguments.
std::size_t chunk_scan_work(const MambaShape& shape);
std::size_t chunk_scan_backward_work(const MambaShape& shape);
template <class T>
void chunk_scan_forward(T* y, const T* mixed, const T* projected, const ScanWeights<T>& weights,
                        const std::int32_t* first_key, const ScanEnds<float>& ends,
                        const MambaShape& shape, void* work, cudaStream_t stream);
template <class T, class G>
void chunk_scan_backward(T* d_mixed, T* d_projected, const ScanGradients<G>& gradients, const T* dy,
                         const T* mixed, const T* projected, const ScanWeights<T>& weights,
                         const std::int32_t* first_key, const MambaShape& shape, void* work,
                         cudaStream_t stream);
}  // namespace mt::cuda
