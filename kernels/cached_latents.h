// kernels/cached_latents.h: latent attention of tokens whose past is in a cache, which has a
// token's latent and turning key once, not keys and values of each head: the matrices that would
// make these of it are multiplied with the queries, and with what the queries find (DeepSeek-AI:
// arXiv:2405.04434, section 2.1.2).
//   q_fixed . (W_k c) = (W_k^T q_fixed) . c      sum_j p_j (W_v c_j) = W_v (sum_j p_j c_j)
// cached_latents: token t of sequence i stands at position p = positions[i tokens / sequences + t]
//   q[t,h] = [turn(q_rows[t,h] from `fixed` on) | as it was], which head_product() fills
//   cache[slot, c] = [turn(turning[t]) | latents[t]], where slot = slots[i, run], p = run capacity
//   + c
// q_rows: [tokens, heads, fixed + turning];  q: [tokens, heads, turning + rank]
// turning: [tokens, turning];  latents: [tokens, rank];  angles: [tokens, turning] (cached_qkv.h)
// cache: [slots, capacity, turning + rank];  slots: [sequences, runs]
// Neighbouring channels turn together.
//
// head_product: of each head's own rows of a weight,
//   out[t,h] = x[t,h] W_h       or, transposed,       out[t,h] = W_h x[t,h]
// W_h: `rows` rows of w from h rows_of_head + first_row on; w: [heads rows_of_head, cols]
// x: [tokens, heads, x_width], of which the channels from first_x on are read, `rows` of them or
// `cols`; out: [tokens, heads, out_width], of which those from first_out on are overwritten.
// T: float or double; on the GPU float, bf16 or fp16, sums in f32.
#pragma once

#include <cstdint>

#include "kernels/cache_place.h"
#include "kernels/cuda_types.h"

namespace mt {
// So wide are, with their turning keys, the widest latents that attention on a GPU reads as one
// head's keys and values (attention_wide.cu).
inline constexpr std::int64_t kWidestLatents = 576;

struct CachedLatentsShape {
  std::int64_t tokens = 0, sequences = 0, heads = 0, fixed = 0, turning = 0, rank = 0;
  std::int64_t capacity = 0, runs = 1;

  constexpr std::int64_t width() const { return turning + rank; }
};

template <class T>
struct CachedLatents {
  T *q, *cache;
  const T *q_rows, *turning, *latents;
  const std::int32_t *positions, *slots;
};

struct HeadProductShape {
  std::int64_t tokens = 0, heads = 0;
  std::int64_t rows_of_head = 0, first_row = 0, rows = 0, cols = 0;
  std::int64_t x_width = 0, first_x = 0, out_width = 0, first_out = 0;
  bool transposed = false;
  // On the CPU each token gets the bits that it gets alone, however many there are; on a GPU it
  // always does.
  bool rows_alone = false;

  constexpr std::int64_t read() const { return transposed ? cols : rows; }
  constexpr std::int64_t made() const { return transposed ? rows : cols; }
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void cached_latents(const CachedLatents<T>& tensors, const T* angles,
                    const CachedLatentsShape& shape);
template <class T>
void head_product(T* out, const T* x, const T* w, const HeadProductShape& shape);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void cached_latents(const CachedLatents<T>& tensors, const float* angles,
                    const CachedLatentsShape& shape, cudaStream_t stream);
template <class T>
void head_product(T* out, const T* x, const T* w, const HeadProductShape& shape,
                  cudaStream_t stream);
}  // namespace mt::cuda
