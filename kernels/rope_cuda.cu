#include "kernels/rope.h"

#include <algorithm>

#include "kernels/cuda_check.h"
#include "kernels/divisor.cuh"
#include "kernels/turn.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void table_kernel(float* table, const double* inv_freq, std::int64_t first_position,
                             std::int64_t positions, int half, double magnitude) {
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i >= positions * half) return;
  const std::int64_t row = i / half;
  const int pair = static_cast<int>(i % half);
  double sine, cosine;
  sincos(static_cast<double>(first_position + row) * inv_freq[pair], &sine, &cosine);
  table[row * 2 * half + pair] = static_cast<float>(magnitude * cosine);
  table[row * 2 * half + half + pair] = static_cast<float>(magnitude * sine);
}

// Where units are.  Heads that turn are numbered without the values in between: of `group` heads
// there is one less.
template <class Index>
struct Units {
  Index count, turning, heads, seq_length;  // turning: units of a head
  Divisor<Index> by_turning, by_keys, by_heads, by_seq_length;
  bool has_values;

  Units(const RopeShape& s, std::int64_t all, std::int64_t of_head)
      : count(static_cast<Index>(all)),
        turning(static_cast<Index>(of_head)),
        heads(static_cast<Index>(s.heads)),
        seq_length(static_cast<Index>(s.seq_length)),
        by_turning(turning),
        by_keys(static_cast<Index>(std::max<std::int64_t>(1, s.packed_group - 1))),
        by_heads(heads),
        by_seq_length(seq_length),
        has_values(s.packed_group > 0) {}
};

template <int N, class Index, class T>
__global__ __launch_bounds__(kThreads) void rope_kernel(T* x, Turn turn, Units<Index> units,
                                                        int head_dim) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= units.count) return;
  const Index n = units.by_turning(i), head = units.has_values ? n + units.by_keys(n) : n;
  const Index token = units.by_heads(head);
  const Index position = token - units.by_seq_length(token) * units.seq_length;
  T* at = x + static_cast<std::int64_t>(head) * head_dim;
  turn.operator()<N>(at, at, head_dim, static_cast<std::int64_t>(position),
                     static_cast<int>(i - n * units.turning));
}

}  // namespace

void rope_table(float* table, const double* inv_freq, const RopeShape& s, cudaStream_t stream) {
  const std::int64_t positions = std::min(s.tokens, s.seq_length), half = s.rotary_dim / 2;
  if (positions * half == 0) return;
  table_kernel<<<static_cast<unsigned>(ceil_div(positions * half, kThreads)), kThreads, 0,
                 stream>>>(table, inv_freq, s.first_position, positions, static_cast<int>(half),
                           s.magnitude);
  check(cudaGetLastError());
}

template <class T>
void rope(T* x, const float* table, const RopeShape& s, bool inverse, cudaStream_t stream) {
  if (s.tokens * s.heads * s.rotary_dim == 0) return;
  const Turn turn{table, static_cast<int>(s.rotary_dim / 2), s.interleaved, inverse ? -1.0f : 1.0f};
  with_width<kWide<T>>(aligned(x) && fits(turn, s.head_dim, kWide<T>), [&]<int N>() {
    const std::int64_t values = s.packed_group > 0 ? s.heads / s.packed_group : 0;
    const std::int64_t of_head = turn.half / N, units = s.tokens * (s.heads - values) * of_head;
    const bool narrow =
        std::max({units + kThreads, s.tokens * s.heads, s.seq_length}) <= 0xffffffff;
    with_index(narrow, [&]<class Index>() {
      rope_kernel<N, Index>
          <<<static_cast<unsigned>(ceil_div(units, kThreads)), kThreads, 0, stream>>>(
              x, turn, Units<Index>(s, units, of_head), static_cast<int>(s.head_dim));
    });
  });
  check(cudaGetLastError());
}

template void rope(float*, const float*, const RopeShape&, bool, cudaStream_t);
template void rope(bf16*, const float*, const RopeShape&, bool, cudaStream_t);
template void rope(fp16*, const float*, const RopeShape&, bool, cudaStream_t);

}  // namespace mt::cuda
