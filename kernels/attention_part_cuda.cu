// Attention of a part on the GPU: the kernels of attention.h compute it as if it were alone, and
// what they give is joined with what there was before, if anything, in f32.
#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "kernels/attention_part.h"
#include "kernels/cuda_check.h"
#include "kernels/elementwise.h"
#include "kernels/pack.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

// A warp for each row of each head; lse has so many elements a head.  Sums of before and of the
// part are weighted by their shares of exp(lse) of both.
template <class S, class T>
__global__ __launch_bounds__(kThreads) void join_kernel(S* o, float* lse, int lse_stride,
                                                        const T* part_o, const float* part_lse,
                                                        int rows, int heads, int head_dim) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (i >= std::int64_t{rows} * heads) return;
  const std::int64_t head = i % heads, row = i / heads;
  float* const at = lse + head * lse_stride + row;
  const float before = *at, part = part_lse[head * rows + row];  // the part's rows see a key each
  const float largest = fmaxf(before, part);
  const float both = largest + log1pf(expf(fminf(before, part) - largest));
  const float keep = expf(before - both), add = expf(part - both);
  for (int c = lane; c < head_dim; c += 32) {
    const std::int64_t element = i * head_dim + c;
    o[element] = static_cast<S>(keep * to_float(o[element]) + add * to_float(part_o[element]));
  }
  __syncwarp();
  if (lane == 0) *at = both;
}

template <class S, class T>
void take_part(S* y, const T* x, std::int64_t count, bool so_far, cudaStream_t stream) {
  if (so_far) return add(y, y, x, count, stream);
  if constexpr (!std::is_same_v<S, T>) convert(y, x, count, stream);
}

// Where a kernel writes a part's results: to their place, if nothing is there to be added to, else
// to scratch.
template <class S, class T>
T* place_of_part(S* y, T* scratch, bool so_far) {
  if constexpr (std::is_same_v<S, T>)
    if (!so_far) return y;
  return scratch;
}

// A part's shape as the kernels take it, to whom places matter where something is dropped.
AttentionShape alone(const AttentionShape& shape, const AttentionRange& range, bool drops) {
  AttentionShape part = shape;
  part.causal = range.same_tokens();
  if (drops) part.place = range;
  return part;
}

std::int64_t lse_stride(const AttentionShape& shape, const AttentionRange& range) {
  return range.lse_stride > 0 ? range.lse_stride : shape.q_length;
}

// What the kernels need for queries that are their keys' tokens, and for others.
template <class Work>
std::size_t most_work(const AttentionShape& shape, const Work& work) {
  return std::max(work(alone(shape, {}, false)), work(alone(shape, {.query = 1}, false)));
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

template <class Q, class T>
void attention_part_forward(Q* o, float* lse, const T* q, const T* k, const T* v,
                            const AttentionShape& shape, const AttentionRange& range,
                            const Dropout& dropout, AttentionSoFar so_far, void* work,
                            cudaStream_t stream) {
  const std::int64_t rows = shape.q_length * shape.heads;
  if (rows == 0) return;
  Scratch scratch(work);
  T* const part_o = place_of_part(o, scratch.take<T>(query_elements(shape)), so_far.of_queries);
  auto* const part_lse = scratch.take<float>(rows);
  attention_forward(part_o, so_far.of_queries ? part_lse : lse, q, k, v, nullptr,
                    alone(shape, range, dropout.p > 0), dropout, scratch.rest(), stream);
  if (!so_far.of_queries) {
    if constexpr (!std::is_same_v<Q, T>) take_part(o, part_o, query_elements(shape), false, stream);
    return;
  }
  const auto blocks = static_cast<unsigned>(ceil_div(rows * 32, std::int64_t{kThreads}));
  join_kernel<<<blocks, kThreads, 0, stream>>>(o, lse, static_cast<int>(lse_stride(shape, range)),
                                               part_o, part_lse, static_cast<int>(shape.q_length),
                                               static_cast<int>(shape.heads),
                                               static_cast<int>(shape.head_dim));
  check(cudaGetLastError());
}

template <class T>
std::size_t attention_part_backward_work(const AttentionShape& s) {
  return Scratch::bytes<T>(query_elements(s)) + 2 * Scratch::bytes<T>(key_elements(s)) +
         Scratch::bytes<float>(s.q_length * s.heads) + most_work(s, attention_backward_work<T>);
}

template <class Q, class K, class T>
void attention_part_backward(Q* dq, K* dk, K* dv, const T* d_o, const T* o, const float* lse,
                             const T* q, const T* k, const T* v, const AttentionShape& shape,
                             const AttentionRange& range, const Dropout& dropout,
                             AttentionSoFar so_far, void* work, cudaStream_t stream) {
  const std::int64_t queries = query_elements(shape), keys = key_elements(shape);
  if (queries == 0) return;
  Scratch scratch(work);
  T* const part_q = place_of_part(dq, scratch.take<T>(queries), so_far.of_queries);
  T* const part_k = place_of_part(dk, scratch.take<T>(keys), so_far.of_keys);
  T* const part_v = place_of_part(dv, scratch.take<T>(keys), so_far.of_keys);
  if (const std::int64_t stride = lse_stride(shape, range); stride != shape.q_length) {
    const auto row = static_cast<std::size_t>(shape.q_length) * sizeof(float);
    auto* const own = scratch.take<float>(shape.q_length * shape.heads);
    check(cudaMemcpy2DAsync(own, row, lse, static_cast<std::size_t>(stride) * sizeof(float), row,
                            static_cast<std::size_t>(shape.heads), cudaMemcpyDeviceToDevice,
                            stream));
    lse = own;
  }
  attention_backward(part_q, part_k, part_v, d_o, o, lse, q, k, v, nullptr,
                     alone(shape, range, dropout.p > 0), dropout, scratch.rest(), stream);
  const auto take = [&](auto* sum, const T* part, std::int64_t count, bool of_before) {
    if (static_cast<const void*>(sum) != part) take_part(sum, part, count, of_before, stream);
  };
  take(dq, part_q, queries, so_far.of_queries);
  take(dk, part_k, keys, so_far.of_keys);
  take(dv, part_v, keys, so_far.of_keys);
}

#define FORWARD(Q, T)                                                                \
  template void attention_part_forward(Q*, float*, const T*, const T*, const T*,     \
                                       const AttentionShape&, const AttentionRange&, \
                                       const Dropout&, AttentionSoFar, void*, cudaStream_t)
#define BACKWARD(Q, K, T)                                                                       \
  template void attention_part_backward(Q*, K*, K*, const T*, const T*, const float*, const T*, \
                                        const T*, const T*, const AttentionShape&,              \
                                        const AttentionRange&, const Dropout&, AttentionSoFar,  \
                                        void*, cudaStream_t)
#define INSTANTIATE(T)                                                         \
  template std::size_t attention_part_forward_work<T>(const AttentionShape&);  \
  template std::size_t attention_part_backward_work<T>(const AttentionShape&); \
  FORWARD(float, T);                                                           \
  BACKWARD(float, float, T)
#define INSTANTIATE_NARROW(T) \
  INSTANTIATE(T);             \
  FORWARD(T, T);              \
  BACKWARD(T, T, T);          \
  BACKWARD(float, T, T)
INSTANTIATE(float);
INSTANTIATE_NARROW(bf16);
INSTANTIATE_NARROW(fp16);

}  // namespace mt::cuda
