// kernels/retrieval_loss.h: how well queries find their own contexts among all of a batch
// (Megatron-LM core_v0.12.1, pretrain_ict.py).  Each query brings some contexts, of which the first
// is its own: that of query i is context o = i `each`.
//   lse_i = log sum_j exp(s_ij)        loss_i = lse_i - s_io
//   hit_ki = 100, if fewer than top_k contexts have a score above s_io, or that score and a smaller
//            number; else 0
//   gradient: s_ij becomes w_i (exp(s_ij - lse_i) - [j = o])
// s: [n, n each] of T; loss and w: [n]; w null: no gradient; hit: [k, n].  T: float, on the CPU
// also double; sums of T.
#pragma once

#include <cstdint>

using cudaStream_t = struct CUstream_st*;

namespace mt {

inline constexpr int kMostTops = 7;

struct RetrievalShape {
  std::int64_t n = 0, each = 1;
  std::int64_t contexts() const { return n * each; }
};

struct RetrievalTops {
  int count = 0;
  std::int64_t top[kMostTops] = {};
};

}  // namespace mt

namespace mt::cpu {
template <class T>
void retrieval_loss(T* loss, T* hit, T* s, const T* w, const RetrievalShape& shape,
                    const RetrievalTops& tops);
}  // namespace mt::cpu

namespace mt::cuda {
void retrieval_loss(float* loss, float* hit, float* s, const float* w, const RetrievalShape& shape,
                    const RetrievalTops& tops, cudaStream_t stream);
}  // namespace mt::cuda
