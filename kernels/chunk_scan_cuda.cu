// The plain form: one thread or one block makes each sum, in order, and all is f32 but for what is
// read and stored.
#include "kernels/chunk_scan_hopper.cuh"

namespace mt::cuda {

namespace {

using namespace scan;

template <class T>  // a thread for each chunk and head
__global__ void steps_kernel(const Scan<T> in) {
  const MambaShape& s = in.s;
  if (thread_number() >= s.sequences * s.chunks() * s.heads) return;
  const Chunk k = in.chunk(thread_number() / s.heads);
  const std::int64_t head = thread_number() % s.heads;
  const float decay = in.decay(head);
  float sum = 0;
  for (std::int64_t i = 0; i < k.size; ++i) {
    const std::int64_t at = k.token(i, s) * s.heads + head;
    const float raw = in.raw(k.token(i, s), head);
    in.dt[at] = fmaxf(raw, 0) + log1pf(expf(-fabsf(raw)));
    in.a[at] = sum += in.dt[at] * decay;
  }
}

template <class T>
__global__ void pairs_kernel(const Scan<T> in) {
  for_pairs(in, [&](const Chunk& k, std::int64_t group, std::int64_t i, std::int64_t j) {
    float sum = 0;
    for (std::int64_t n = 0; n < in.s.state_dim; ++n)
      sum += in.c(k.token(i, in.s), group, n) * in.b(k.token(j, in.s), group, n);
    in.pair_row(k, group, i)[j] = sum;
  });
}

// A block for each chunk and head finds what the chunk adds to the state behind it.
template <class T>
__global__ void states_kernel(const Scan<T> in) {
  __shared__ float factor[kMostChunk];
  const MambaShape& s = in.s;
  const Chunk k = in.chunk(blockIdx.x / s.heads);
  const std::int64_t head = blockIdx.x % s.heads, group = in.group(head);
  for (std::int64_t j = threadIdx.x; j < k.size; j += kThreads)
    factor[j] = in.to_end(k, head, j) * in.dt[k.token(j, s) * s.heads + head];
  __syncthreads();
  for (std::int64_t e = threadIdx.x; e < s.state(); e += kThreads) {
    float sum = 0;
    for (std::int64_t j = k.first(k.size - 1); j < k.size; ++j)
      sum += factor[j] * in.x(k.token(j, s), head, e / s.state_dim) *
             in.b(k.token(j, s), group, e % s.state_dim);
    in.state(k, head)[e] = sum;
  }
}

// A thread for each element of each sequence's states makes what chunks add what comes into them.
template <class T>
__global__ void pass_kernel(const Scan<T> in, const ScanEnds<float> ends) {
  const MambaShape& s = in.s;
  const std::int64_t of_sequence = s.heads * s.state(), at = thread_number() % of_sequence,
                     sequence = thread_number() / of_sequence, head = at / s.state();
  if (sequence >= s.sequences) return;
  const bool had = ends.before && !ends.slots.begins(sequence, s.length);
  float state = had ? ends.before[ends.slots.of(sequence) * of_sequence + at] : 0;
  for (std::int64_t c = 0; c < s.chunks(); ++c) {
    const Chunk k = in.chunk(sequence * s.chunks() + c);
    float& place = in.state(k, head)[at % s.state()];
    const float added = place;
    place = state;
    state = in.from_before(k, head, k.size - 1) * state + added;
  }
  if (ends.after) ends.after[ends.slots.of(sequence) * of_sequence + at] = state;
}

template <class T>  // a block for each token and head
__global__ void output_kernel(T* y, const Scan<T> in) {
  __shared__ float factor[kMostChunk];
  const MambaShape& s = in.s;
  const std::int64_t token = blockIdx.x / s.heads, head = blockIdx.x % s.heads,
                     t = token % s.length;
  const Chunk k = in.chunk(token / s.length * s.chunks() + t / s.chunk);
  const std::int64_t i = t - k.begin;
  find_factors(in, k, head, i, factor);
  __syncthreads();
  const float skip = to_float(in.weights.d[head]);
  for (std::int64_t p = threadIdx.x; p < s.head_dim; p += kOfToken)
    y[token * s.inner() + head * s.head_dim + p] =
        static_cast<T>(read(in, k, head, i, p, factor) + skip * in.x(token, head, p));
}

}  // namespace

template <class T>
void scan::find_states(const Scan<T>& in, const ScanEnds<float>& ends, cudaStream_t stream) {
  const MambaShape& s = in.s;
  const std::int64_t chunks = all_chunks(s);
  steps_kernel<<<blocks_for(chunks * s.heads), kThreads, 0, stream>>>(in);
  pairs_kernel<<<blocks_for(chunks * s.groups * s.chunk * s.chunk), kThreads, 0, stream>>>(in);
  states_kernel<<<of_heads(chunks, s), kThreads, 0, stream>>>(in);
  pass_kernel<<<blocks_for(s.sequences * s.heads * s.state()), kThreads, 0, stream>>>(in, ends);
  check(cudaGetLastError());
}

template void scan::find_states(const Scan<float>&, const ScanEnds<float>&, cudaStream_t);
template void scan::find_states(const Scan<bf16>&, const ScanEnds<float>&, cudaStream_t);
template void scan::find_states(const Scan<fp16>&, const ScanEnds<float>&, cudaStream_t);

std::size_t chunk_scan_work(const MambaShape& s) {
  Tables tables(nullptr);
  Scan<float> in{};
  in.s = s;
  take(in, tables);
  std::size_t bytes = tables.bytes();
  if constexpr (kHopper) bytes = std::max(bytes, hopper::forward_work(s));
  return bytes;
}

template <class T>
void chunk_scan_forward(T* y, const T* mixed, const T* projected, const ScanWeights<T>& weights,
                        const std::int32_t* first_key, const ScanEnds<float>& ends,
                        const MambaShape& s, void* work, cudaStream_t stream) {
  if (s.tokens() == 0) return;
  Tables tables(work);
  Scan<T> in{mixed, projected, weights, first_key, s};
  if constexpr (kHopper && std::is_same_v<T, bf16>)
    if (hopper::fit(in, y)) return hopper::forward(y, in, ends, work, stream);
  take(in, tables);
  find_states(in, ends, stream);
  output_kernel<<<of_heads(s.tokens(), s), kOfToken, 0, stream>>>(y, in);
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                                             \
  template void chunk_scan_forward(T*, const T*, const T*, const ScanWeights<T>&,                  \
                                   const std::int32_t*, const ScanEnds<float>&, const MambaShape&, \
                                   void*, cudaStream_t);
INSTANTIATE(float)
INSTANTIATE(bf16)
INSTANTIATE(fp16)
#undef INSTANTIATE

}  // namespace mt::cuda
