#include <algorithm>

#include "base/error.h"
#include "kernels/cached_qkv.h"
#include "kernels/dependent.cuh"
#include "kernels/turn.cuh"

namespace mt::cuda {
namespace {

constexpr int kMostPairs = 128;  // of a head's channels
constexpr int kThreads = 256;

struct Frequencies {
  double of_pair[kMostPairs];
};

__global__ __launch_bounds__(kThreads) void angles_kernel(float* angles,
                                                          const Frequencies frequencies,
                                                          const std::int32_t* positions,
                                                          std::int64_t tokens, int half,
                                                          double magnitude) {
  let_next_kernel_begin();
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  const bool exists = i < tokens * half;
  const std::int64_t token = i / half;
  const int pair = static_cast<int>(i % half);
  double sine = 0, cosine = 0;
  if (exists) sincos(positions[token] * frequencies.of_pair[pair], &sine, &cosine);
  wait_for_kernel_before();
  if (!exists) return;
  angles[token * 2 * half + pair] = static_cast<float>(magnitude * cosine);
  angles[token * 2 * half + half + pair] = static_cast<float>(magnitude * sine);
}

template <class T>
struct Rows {
  T *q, *keys, *values;
  const T* qkv;
  const std::int32_t *positions, *slots;
  bool of_tokens;
};

// A block works on a token: units of its queries and keys, then of its values.
template <int N, class T>
__global__ __launch_bounds__(kThreads) void rows_kernel(const Rows<T> rows, const Turn turn,
                                                        int heads, int groups, int head_dim,
                                                        int length, std::int64_t capacity,
                                                        int runs) {
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t token = blockIdx.x, sequence = token / length;
  const std::int64_t row =
      rows.of_tokens ? token
                     : row_in_cache(rows.slots, runs, capacity, sequence, rows.positions[token]);
  const std::int64_t place = row * groups * head_dim;
  const int per_group = heads / groups, of_head = turn.units<N>(head_dim);
  const int turned = (heads + groups) * of_head, of_value = Turn{}.units<N>(head_dim);
  const T* const from = rows.qkv + token * (heads + 2 * groups) * head_dim;
  for (int i = static_cast<int>(threadIdx.x); i < turned + groups * of_value; i += blockDim.x) {
    if (i < turned) {
      const int head = i / of_head, group = head / (per_group + 1), n = head % (per_group + 1);
      T* const to = n < per_group ? rows.q + (token * heads + group * per_group + n) * head_dim
                                  : rows.keys + place + group * head_dim;
      turn.operator()<N>(to, from + (group * (per_group + 2) + n) * head_dim, head_dim, token,
                         i % of_head);
    } else {
      const int group = (i - turned) / of_value;
      Turn{}.operator()<N>(rows.values + place + group * head_dim,
                           from + (group * (per_group + 2) + per_group + 1) * head_dim, head_dim,
                           token, (i - turned) % of_value);
    }
  }
}

}  // namespace

void rope_angles(float* angles, const double* inv_freq, const std::int32_t* positions,
                 std::int64_t tokens, std::int64_t rotary_dim, double magnitude,
                 cudaStream_t stream) {
  const std::int64_t half = rotary_dim / 2;
  if (tokens * half == 0) return;
  if (half > kMostPairs)
    fail(Exit::unavailable, "rotary embedding on a GPU: ", rotary_dim, " channels, at most ",
         2 * kMostPairs);
  Frequencies frequencies = {};
  std::copy_n(inv_freq, half, frequencies.of_pair);
  launch_dependent(angles_kernel, ceil_div(tokens * half, kThreads), kThreads, 0, stream, angles,
                   frequencies, positions, tokens, static_cast<int>(half), magnitude);
}

template <class T>
void cached_qkv(T* q, T* keys, T* values, const T* qkv, const float* angles,
                const std::int32_t* positions, const std::int32_t* slots, const CachedQkvShape& s,
                cudaStream_t stream) {
  if (s.qkv.tokens * s.qkv.groups * s.qkv.head_dim == 0) return;
  const Turn turn{angles, static_cast<int>(s.rotary_dim / 2), s.interleaved, 1};
  const bool wide = aligned(q, keys, values, qkv) && fits(turn, s.qkv.head_dim, kWide<T>);
  with_width<kWide<T>>(wide, [&]<int N>() {
    launch_dependent(rows_kernel<N, T>, s.qkv.tokens, kThreads, 0, stream,
                     Rows<T>{q, keys, values, qkv, positions, slots, s.of_tokens}, turn,
                     static_cast<int>(s.qkv.heads), static_cast<int>(s.qkv.groups),
                     static_cast<int>(s.qkv.head_dim), static_cast<int>(s.qkv.tokens / s.sequences),
                     s.capacity, static_cast<int>(s.runs));
  });
}

#define INSTANTIATE(T)                                                              \
  template void cached_qkv(T*, T*, T*, const T*, const float*, const std::int32_t*, \
                           const std::int32_t*, const CachedQkvShape&, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
