// kernels/turn.cuh: rotary embedding of one head by units of work, for rope_cuda.cu,
// cached_qkv_cuda.cu and token_attention_hopper.cu.
#pragma once

#include "kernels/pack.cuh"

namespace mt::cuda {

// A unit turns N pairs of channels, which lie in two packs, or passes two packs on, the last of a
// head perhaps one.
struct Turn {
  const float* table;  // [positions, 2 half]: the cosines and then the sines of each
  int half;            // of the rotated channels
  bool interleaved;
  float sign;  // of the sines: -1 turns back

  // Units of a head; the first half / N turn.
  template <int N>
  __device__ int units(int head_dim) const {
    return half / N + (head_dim - 2 * half + 2 * N - 1) / (2 * N);
  }

  template <int N, class T>
  __device__ void operator()(T* to, const T* from, int head_dim, std::int64_t position,
                             int unit) const {
    if (unit >= half / N) {
      const int c = 2 * half + (unit - half / N) * 2 * N;
      const bool two = c + N < head_dim;
      const auto first = load<N>(from + c), second = load<N>(from + (two ? c + N : c));
      store(to + c, first);
      if (two) store(to + c + N, second);
      return;
    }
    const float* row = table + position * 2 * half + unit * N;
    const auto cosine = load<N>(row), sine = load<N>(row + half);
    const int low = interleaved ? 2 * unit * N : unit * N, high = low + (interleaved ? N : half);
    const auto a = load<N>(from + low), b = load<N>(from + high);
    float x[2 * N];
#pragma unroll
    for (int n = 0; n < N; ++n) x[n] = a[n], x[N + n] = b[n];
    const auto rotate = [&](float& first, float& second, int n) {
      const float c = cosine[n], s = sign * sine[n], before = first;
      first = before * c - second * s;
      second = second * c + before * s;
    };
    if (interleaved) {
#pragma unroll
      for (int n = 0; n < N; ++n) rotate(x[2 * n], x[2 * n + 1], n);
    } else {
#pragma unroll
      for (int n = 0; n < N; ++n) rotate(x[n], x[N + n], n);
    }
    float low_out[N], high_out[N];
#pragma unroll
    for (int n = 0; n < N; ++n) low_out[n] = x[n], high_out[n] = x[N + n];
    store(to + low, low_out);
    store(to + high, high_out);
  }
};

// Whether units of N channels fit.
inline bool fits(const Turn& turn, std::int64_t head_dim, int width) {
  return turn.half % width == 0 && head_dim % width == 0 && aligned(turn.table);
}

}  // namespace mt::cuda
