// The plain form: one thread or one block makes each sum, in order, and all is f32 but for what is
// read and stored.  Sequences of one token, as in generation, are one kernel that goes over states
// once.
#include "kernels/chunk_scan_hopper.cuh"
#include "kernels/dependent.cuh"
#include "kernels/ptx.cuh"

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

// One token: a warp has kStepRows channels of a head, its lanes packs of their states.  Behind
// these a part of what is read after the scan is on its way to the L2: as much as comes while what
// is between works, for more would be waited for.
constexpr int kStepThreads = 128, kStepRows = 4, kOfBlock = kStepThreads / 32 * kStepRows;
constexpr std::size_t kPiece = 2048, kMostPieces = 4096;  // bytes that a thread brings; of all

// This thread's piece, of those that are spread over all there are.
__device__ void fetch_ahead(const ScanEnds<float>& ends) {
  const std::size_t all = ends.ahead_bytes / kPiece, some = all < kMostPieces ? all : kMostPieces,
                    piece = blockIdx.x * std::size_t{kStepThreads} + threadIdx.x;
  if (piece < some)
    fetch_to_l2(static_cast<const char*>(ends.ahead) + all / some * piece * kPiece, int{kPiece});
}

// What the cache has is older than the step's first kernel, which is launched otherwise
// (dependent.cuh).
template <int N, class T>
__global__ __launch_bounds__(kStepThreads) void token_kernel(T* y, const Scan<T> in,
                                                             const ScanEnds<float> ends,
                                                             int blocks_of_head) {
  let_next_kernel_begin();
  const MambaShape& s = in.s;
  const std::int64_t of_all = blockIdx.x / blocks_of_head, sequence = of_all / s.heads,
                     head = of_all % s.heads, group = in.group(head),
                     first = (blockIdx.x % blocks_of_head * std::int64_t{kStepThreads / 32} +
                              threadIdx.x / 32) *
                             kStepRows;
  const bool had = ends.before && !ends.slots.begins(sequence, 1);
  const std::int64_t of_state =
      ((ends.before || ends.after ? ends.slots.of(sequence) : 0) * s.heads + head) * s.state();
  const auto load_states = [&](Pack<float, N>(&states)[kStepRows], std::int64_t n) {
#pragma unroll
    for (int r = 0; r < kStepRows; ++r) {
      states[r] = {};
      if (had && n < s.state_dim && first + r < s.head_dim)
        states[r] = load<N>(ends.before + of_state + (first + r) * s.state_dim + n);
    }
  };
  const float decay = in.decay(head), skip = to_float(in.weights.d[head]);
  Pack<float, N> states[kStepRows];
  load_states(states, threadIdx.x % 32 * N);
  wait_for_kernel_before();
  const float raw = in.raw(sequence, head), dt = fmaxf(raw, 0) + log1pf(expf(-fabsf(raw))),
              kept = expf(dt * decay);
  const T* const row = in.mixed + sequence * s.mixed();
  const T *const b = row + s.b_of_mixed() + group * s.state_dim, *const c = row + s.c_of_mixed() +
                                                                            group * s.state_dim;
  float sums[kStepRows] = {}, x[kStepRows];
#pragma unroll
  for (int r = 0; r < kStepRows; ++r)
    x[r] = first + r < s.head_dim ? in.x(sequence, head, first + r) : 0;
  for (std::int64_t n = threadIdx.x % 32 * N; n < s.state_dim; n += 32 * N) {
    if (n >= 32 * N) load_states(states, n);
    const auto in_b = load<N>(b + n), in_c = load<N>(c + n);
#pragma unroll
    for (int r = 0; r < kStepRows; ++r) {
      float state[N];
#pragma unroll
      for (int i = 0; i < N; ++i) {
        state[i] = kept * states[r][i] + dt * x[r] * in_b[i];
        sums[r] += state[i] * in_c[i];
      }
      if (ends.after && first + r < s.head_dim)
        store(ends.after + of_state + (first + r) * s.state_dim + n, state);
    }
  }
  fetch_ahead(ends);
#pragma unroll
  for (int r = 0; r < kStepRows; ++r) {
    const float sum = over_lanes(sums[r]);
    if (threadIdx.x % 32 == r && first + r < s.head_dim)
      y[(sequence * s.heads + head) * s.head_dim + first + r] = static_cast<T>(sum + skip * x[r]);
  }
}

template <class T>
void run_tokens(T* y, const Scan<T>& in, const ScanEnds<float>& ends, cudaStream_t stream) {
  const MambaShape& s = in.s;
  const std::int64_t blocks_of_head = ceil_div(s.head_dim, kOfBlock);
  const bool wide = s.state_dim % 4 == 0 && s.mixed() % 4 == 0 && s.b_of_mixed() % 4 == 0 &&
                    aligned(in.mixed, ends.before, ends.after);
  with_width<4>(wide, [&]<int N>() {
    launch_dependent(token_kernel<N, T>, s.sequences * s.heads * blocks_of_head, kStepThreads, 0,
                     stream, y, in, ends, static_cast<int>(blocks_of_head));
  });
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
  if (s.length == 1) return run_tokens(y, in, ends, stream);
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
