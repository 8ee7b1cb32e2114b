#include "kernels/rope.h"

#include <algorithm>

#include "kernels/cuda_check.h"
#include "kernels/turn.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void table_kernel(float* table, const double* inv_freq, std::int64_t first_position,
                             std::int64_t positions, int half) {
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i >= positions * half) return;
  const std::int64_t row = i / half;
  const int pair = static_cast<int>(i % half);
  double sine, cosine;
  sincos(static_cast<double>(first_position + row) * inv_freq[pair], &sine, &cosine);
  table[row * 2 * half + pair] = static_cast<float>(cosine);
  table[row * 2 * half + half + pair] = static_cast<float>(sine);
}

// Heads that turn are numbered without the values in between: of `group` heads there is one less.
template <int N, class T>
__global__ __launch_bounds__(kThreads) void rope_kernel(T* x, Turn turn, std::int64_t heads,
                                                        int group, int head_dim,
                                                        std::int64_t units) {
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i >= units) return;
  const int turning = turn.half / N;
  const std::int64_t n = i / turning, head = group > 0 ? n + n / (group - 1) : n;  // of all tokens
  T* at = x + head * head_dim;
  turn.operator()<N>(at, at, head_dim, head / heads, static_cast<int>(i % turning));
}

}  // namespace

void rope_table(float* table, const double* inv_freq, const RopeShape& s, cudaStream_t stream) {
  const std::int64_t positions = std::min(s.tokens, s.seq_length), half = s.rotary_dim / 2;
  if (positions * half == 0) return;
  table_kernel<<<static_cast<unsigned>(ceil_div(positions * half, kThreads)), kThreads, 0,
                 stream>>>(table, inv_freq, s.first_position, positions, static_cast<int>(half));
  check(cudaGetLastError());
}

template <class T>
void rope(T* x, const float* table, const RopeShape& s, bool inverse, cudaStream_t stream) {
  if (s.tokens * s.heads * s.rotary_dim == 0) return;
  const Turn turn{table, s.seq_length, static_cast<int>(s.rotary_dim / 2), s.interleaved,
                  inverse ? -1.0f : 1.0f};
  with_width<kWide<T>>(aligned(x) && fits(turn, s.head_dim, kWide<T>), [&]<int N>() {
    const std::int64_t values = s.packed_group > 0 ? s.heads / s.packed_group : 0;
    const std::int64_t units = s.tokens * (s.heads - values) * (turn.half / N);
    rope_kernel<N><<<static_cast<unsigned>(ceil_div(units, kThreads)), kThreads, 0, stream>>>(
        x, turn, s.heads, static_cast<int>(s.packed_group), static_cast<int>(s.head_dim), units);
  });
  check(cudaGetLastError());
}

template void rope(float*, const float*, const RopeShape&, bool, cudaStream_t);
template void rope(bf16*, const float*, const RopeShape&, bool, cudaStream_t);
template void rope(fp16*, const float*, const RopeShape&, bool, cudaStream_t);

}  // namespace mt::cuda
