// kernels/head_shares.h: what each of several ranks has of a Mamba-2's mixer where they part its
// heads among themselves: of each token the x, B, C and dt of its heads and of their groups, for
// convolution and scan, and not z, which a token's own rank keeps.  Of R ranks, rank r has the r-th
// of R equal parts of the heads, and of the groups, or, of fewer than R groups, the one that its
// heads read, which then several ranks have.
//   split   shares[t, r, c] = projected[t, place(r, c)]
//   merge   d_projected[t, j] = sum over r and c of place(r, c) = j of d_shares[t, r, c], in order
// projected, d_projected: [tokens, whole.projected()], of which merge leaves z as it is;  shares:
// [tokens, R, part.projected()], in the order of a shape that is not gated.  T: float or double; on
// the GPU float, bf16 or fp16, sums in f32.
#pragma once

#include "kernels/cuda_types.h"
#include "kernels/mamba_shape.h"

namespace mt {

struct HeadShares {
  MambaShape whole;  // of all ranks' heads
  std::int64_t ranks = 1;

  // A rank's mixer has its share of the heads, and all tokens of the ranks' sequences.
  constexpr MambaShape part() const {
    MambaShape s = whole;
    s.length *= ranks;
    s.heads /= ranks;
    s.groups = whole.groups < ranks ? 1 : whole.groups / ranks;
    s.gated = false;
    return s;
  }
  // The first of a rank's groups.
  constexpr std::int64_t first_group(std::int64_t rank) const {
    return rank * whole.groups / ranks;
  }
  // Where column c of a rank's share stands in a row of `projected`.
  constexpr std::int64_t place(std::int64_t rank, std::int64_t c) const {
    const MambaShape s = part();
    if (c < s.b_of_mixed()) return whole.mixed_of_projected() + rank * s.inner() + c;
    const std::int64_t group = first_group(rank) * s.state_dim, b = c - s.b_of_mixed();
    if (b < s.states()) return whole.mixed_of_projected() + whole.b_of_mixed() + group + b;
    if (b < 2 * s.states())
      return whole.mixed_of_projected() + whole.c_of_mixed() + group + b - s.states();
    return whole.dt_of_projected() + rank * s.heads + c - s.dt_of_projected();
  }
  // The shares that have column j of a row, which is none of z's: `count` ranks from `first` on,
  // each in its column c.
  struct Holders {
    std::int64_t first, count, c;
  };
  constexpr Holders holders(std::int64_t j) const {
    const MambaShape s = part();
    const std::int64_t of_mixed = j - whole.mixed_of_projected();
    if (of_mixed < whole.inner()) return {of_mixed / s.inner(), 1, of_mixed % s.inner()};
    if (j >= whole.dt_of_projected()) {
      const std::int64_t head = j - whole.dt_of_projected();
      return {head / s.heads, 1, s.dt_of_projected() + head % s.heads};
    }
    const bool is_c = of_mixed >= whole.c_of_mixed();
    const std::int64_t state = of_mixed - (is_c ? whole.c_of_mixed() : whole.b_of_mixed()),
                       begin = is_c ? s.c_of_mixed() : s.b_of_mixed();
    if (whole.groups >= ranks) return {state / s.states(), 1, begin + state % s.states()};
    const std::int64_t each = ranks / whole.groups;
    return {state / s.states() * each, each, begin + state % s.states()};
  }
};

}  // namespace mt

namespace mt::cpu {
template <class T>
void split_heads(T* shares, const T* projected, const HeadShares& of);
template <class T>
void merge_heads(T* d_projected, const T* d_shares, const HeadShares& of);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void split_heads(T* shares, const T* projected, const HeadShares& of, cudaStream_t stream);
template <class T>
void merge_heads(T* d_projected, const T* d_shares, const HeadShares& of, cudaStream_t stream);
}  // namespace mt::cuda
