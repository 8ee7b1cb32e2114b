// Attention of a part on the GPU: the kernels of attention.h compute it as if it were alone, and
// what they give is joined with what there was before, in f32.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/attention_part.h"
#include "kernels/cuda_check.h"
#include "kernels/pack.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

// A warp for each row of each head.  Sums of before and of the part are weighted by their shares of
// exp(lse) of both.
template <class T>
__global__ __launch_bounds__(kThreads) void join_kernel(float* o, float* lse, const T* part_o,
                                                        const float* part_lse, int rows, int heads,
                                                        int head_dim) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (i >= std::int64_t{rows} * heads) return;
  const std::int64_t at = i % heads * rows + i / heads;
  const float before = lse[at], part = part_lse[at];  // the part's is finite: each row sees a key
  const float largest = fmaxf(before, part);
  const float both = largest + log1pf(expf(fminf(before, part) - largest));
  const float keep = expf(before - both), add = expf(part - both);
  for (int c = lane; c < head_dim; c += 32) {
    const std::int64_t element = i * head_dim + c;
    o[element] = keep * o[element] + add * to_float(part_o[element]);
  }
  __syncwarp();
  if (lane == 0) lse[at] = both;
}

template <int N, class T>
__global__ __launch_bounds__(kThreads) void add_kernel(float* y, const T* x, std::int64_t count) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  if (i >= count) return;
  const auto sum = load<N>(y + i);
  const auto part = load<N>(x + i);
  float values[N];
#pragma unroll
  for (int n = 0; n < N; ++n) values[n] = sum[n] + part[n];
  store(y + i, values);
}

template <class T>
void add_part(float* y, const T* x, std::int64_t count, cudaStream_t stream) {
  with_width<4>(aligned(y, x) && count % 4 == 0, [&]<int N>() {
    const auto blocks = static_cast<unsigned>(ceil_div(count, std::int64_t{kThreads} * N));
    add_kernel<N><<<blocks, kThreads, 0, stream>>>(y, x, count);
  });
  check(cudaGetLastError());
}

AttentionShape alone(const AttentionShape& shape, const AttentionRange& range) {
  AttentionShape part = shape;
  part.causal = range.query == range.key;
  part.place = range;
  return part;
}

// What the kernels need for queries that are their keys' tokens, and for others.
template <class Work>
std::size_t most_work(const AttentionShape& shape, const Work& work) {
  return std::max(work(alone(shape, {})), work(alone(shape, {.query = 1})));
}

// Tensors that follow each other, each at a multiple of 256 bytes.
class Scratch {
 public:
  explicit Scratch(void* begin) : at_(static_cast<std::byte*>(begin)) {}
  template <class T>
  T* take(std::int64_t count) {
    return reinterpret_cast<T*>(std::exchange(at_, at_ + bytes<T>(count)));
  }
  void* rest() const { return at_; }
  template <class T>
  static std::size_t bytes(std::int64_t count) {
    return (static_cast<std::size_t>(count) * sizeof(T) + 255) / 256 * 256;
  }

 private:
  std::byte* at_;
};

std::int64_t query_elements(const AttentionShape& s) { return s.q_length * s.heads * s.head_dim; }
std::int64_t key_elements(const AttentionShape& s) { return s.kv_length * s.kv_heads * s.head_dim; }

}  // namespace

template <class T>
std::size_t attention_part_forward_work(const AttentionShape& s) {
  return Scratch::bytes<T>(query_elements(s)) + Scratch::bytes<float>(s.q_length * s.heads) +
         most_work(s, attention_forward_work<T>);
}

template <class T>
void attention_part_forward(float* o, float* lse, const T* q, const T* k, const T* v,
                            const AttentionShape& shape, const AttentionRange& range,
                            const Dropout& dropout, void* work, cudaStream_t stream) {
  const std::int64_t rows = shape.q_length * shape.heads;
  if (rows == 0) return;
  Scratch scratch(work);
  T* const part_o = scratch.take<T>(query_elements(shape));
  auto* const part_lse = scratch.take<float>(rows);
  attention_forward(part_o, part_lse, q, k, v, nullptr, alone(shape, range), dropout,
                    scratch.rest(), stream);
  const auto blocks = static_cast<unsigned>(ceil_div(rows * 32, std::int64_t{kThreads}));
  join_kernel<<<blocks, kThreads, 0, stream>>>(
      o, lse, part_o, part_lse, static_cast<int>(shape.q_length), static_cast<int>(shape.heads),
      static_cast<int>(shape.head_dim));
  check(cudaGetLastError());
}

template <class T>
std::size_t attention_part_backward_work(const AttentionShape& s) {
  return Scratch::bytes<T>(query_elements(s)) + 2 * Scratch::bytes<T>(key_elements(s)) +
         most_work(s, attention_backward_work<T>);
}

template <class T>
void attention_part_backward(float* dq, float* dk, float* dv, const T* d_o, const T* o,
                             const float* lse, const T* q, const T* k, const T* v,
                             const AttentionShape& shape, const AttentionRange& range,
                             const Dropout& dropout, void* work, cudaStream_t stream) {
  const std::int64_t queries = query_elements(shape), keys = key_elements(shape);
  if (queries == 0) return;
  Scratch scratch(work);
  T* const part_q = scratch.take<T>(queries);
  T* const part_k = scratch.take<T>(keys);
  T* const part_v = scratch.take<T>(keys);
  attention_backward(part_q, part_k, part_v, d_o, o, lse, q, k, v, nullptr, alone(shape, range),
                     dropout, scratch.rest(), stream);
  add_part(dq, part_q, queries, stream);
  add_part(dk, part_k, keys, stream);
  add_part(dv, part_v, keys, stream);
}

#define INSTANTIATE(T)                                                                        \
  template std::size_t attention_part_forward_work<T>(const AttentionShape&);                 \
  template void attention_part_forward(float*, float*, const T*, const T*, const T*,          \
                                       const AttentionShape&, const AttentionRange&,          \
                                       const Dropout&, void*, cudaStream_t);                  \
  template std::size_t attention_part_backward_work<T>(const AttentionShape&);                \
  template void attention_part_backward(                                                      \
      float*, float*, float*, const T*, const T*, const float*, const T*, const T*, const T*, \
      const AttentionShape&, const AttentionRange&, const Dropout&, void*, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
