// The backward in the plain form, as chunk_scan_cuda.cu has the forward.
#include "kernels/chunk_scan_hopper.cuh"

namespace mt::cuda {

namespace {

using namespace scan;

template <class T>  // as states_kernel: what a chunk adds to the gradient of the state before it
__global__ void states_backward_kernel(const ScanBackward<T> g) {
  __shared__ float factor[kMostChunk];
  const MambaShape& s = g.in.s;
  const Chunk k = g.in.chunk(blockIdx.x / s.heads);
  const std::int64_t head = blockIdx.x % s.heads, group = g.in.group(head);
  for (std::int64_t i = threadIdx.x; i < k.size; i += kThreads)
    factor[i] = g.in.from_before(k, head, i);
  __syncthreads();
  for (std::int64_t e = threadIdx.x; e < s.state(); e += kThreads) {
    float sum = 0;
    for (std::int64_t i = 0; i < k.size; ++i)
      sum += factor[i] * g.of_y(k.token(i, s), head, e / s.state_dim) *
             g.in.c(k.token(i, s), group, e % s.state_dim);
    g.d_state(k, head)[e] = sum;
  }
}

template <class T>  // as pass_kernel: what chunks add becomes the gradient of what goes out of them
__global__ void pass_backward_kernel(const ScanBackward<T> g) {
  const MambaShape& s = g.in.s;
  const std::int64_t of_sequence = s.heads * s.state(), at = thread_number() % of_sequence,
                     sequence = thread_number() / of_sequence, head = at / s.state();
  if (sequence >= s.sequences) return;
  float d_state = 0;
  for (std::int64_t c = s.chunks(); c-- > 0;) {
    const Chunk k = g.in.chunk(sequence * s.chunks() + c);
    float& place = g.d_state(k, head)[at % s.state()];
    const float added = place;
    place = d_state;
    d_state = g.in.from_before(k, head, k.size - 1) * d_state + added;
  }
}

template <class T>  // a block for each chunk and head
__global__ void carried_kernel(const ScanBackward<T> g) {
  __shared__ float shared[kThreads / 32];
  const MambaShape& s = g.in.s;
  const Chunk k = g.in.chunk(blockIdx.x / s.heads);
  const std::int64_t head = blockIdx.x % s.heads;
  float sum = 0;
  for (std::int64_t e = threadIdx.x; e < s.state(); e += kThreads)
    sum += g.d_state(k, head)[e] * g.in.state(k, head)[e];
  sum = over_block(sum, shared);
  if (threadIdx.x == 0) g.carried[blockIdx.x] = g.in.from_before(k, head, k.size - 1) * sum;
}

template <class T>  // a block for each token and head: dx, and what tokens and heads have
__global__ void tokens_backward_kernel(const ScanBackward<T> g) {
  __shared__ float factor[kMostChunk], sent[kMostChunk], shared[4][kOfToken / 32];
  const Scan<T>& in = g.in;
  const MambaShape& s = in.s;
  const std::int64_t token = blockIdx.x / s.heads, head = blockIdx.x % s.heads,
                     t = token % s.length;
  const Chunk k = in.chunk(token / s.length * s.chunks() + t / s.chunk);
  const std::int64_t j = t - k.begin, group = in.group(head);
  find_factors(in, k, head, j, factor);
  for (std::int64_t i = j + threadIdx.x; i < k.size; i += kOfToken)
    sent[i] = k.first(i) <= j ? in.pair_row(k, group, i)[j] * in.passed(k, head, i, j) : 0;
  __syncthreads();
  const float dt = in.dt[blockIdx.x], skip = to_float(in.weights.d[head]),
              to_end = in.to_end(k, head, j);
  float dy_v = 0, x_g = 0, x_out = 0, dy_x = 0;
  for (std::int64_t p = threadIdx.x; p < s.head_dim; p += kOfToken) {
    const float* const d_state = g.d_state(k, head) + p * s.state_dim;
    float within = 0, out = 0;
    for (std::int64_t i = j; i < k.size; ++i) within += sent[i] * g.of_y(k.token(i, s), head, p);
    for (std::int64_t n = 0; n < s.state_dim; ++n) out += d_state[n] * in.b(token, group, n);
    out *= to_end;
    const float x = in.x(token, head, p), d = g.of_y(token, head, p);
    g.d_mixed[token * s.mixed() + head * s.head_dim + p] =
        static_cast<T>(dt * (within + out) + skip * d);
    dy_v += d * read(in, k, head, j, p, factor);
    x_g += x * (within + out);
    x_out += x * out;
    dy_x += d * x;
  }
  dy_v = over_block(dy_v, shared[0]);
  x_g = over_block(x_g, shared[1]);
  x_out = over_block(x_out, shared[2]);
  dy_x = over_block(dy_x, shared[3]);
  if (threadIdx.x != 0) return;
  g.da[blockIdx.x] = dy_v - dt * x_g;
  g.by_step[blockIdx.x] = x_g;
  g.out[blockIdx.x] = dt * x_out;
  g.skip[blockIdx.x] = dy_x;
}

template <class T>  // a thread for each chunk and head
__global__ void steps_backward_kernel(const ScanBackward<T> g) {
  const MambaShape& s = g.in.s;
  if (thread_number() >= s.sequences * s.chunks() * s.heads) return;
  const Chunk k = g.in.chunk(thread_number() / s.heads);
  const std::int64_t head = thread_number() % s.heads;
  const float decay = g.in.decay(head);
  float da = g.carried[thread_number()], bias = 0, a_log = 0, d = 0;
  for (std::int64_t i = 0; i < k.size; ++i) da += g.out[k.token(i, s) * s.heads + head];
  for (std::int64_t i = k.size; i-- > 0;) {
    const std::int64_t token = k.token(i, s), at = token * s.heads + head;
    da += g.da[at];
    const float raw = (decay * da + g.by_step[at]) / (1 + expf(-g.in.raw(token, head)));
    g.d_projected[token * s.projected() + s.dt_of_projected() + head] = static_cast<T>(raw);
    bias += raw;
    a_log += decay * g.in.dt[at] * da;
    d += g.skip[at];
  }
  g.sum_bias[thread_number()] = bias;
  g.sum_a_log[thread_number()] = a_log;
  g.sum_d[thread_number()] = d;
}

template <class T>
__global__ void pairs_backward_kernel(const ScanBackward<T> g) {
  const MambaShape& s = g.in.s;
  for_pairs(g.in, [&](const Chunk& k, std::int64_t group, std::int64_t i, std::int64_t j) {
    float sum = 0;
    for (std::int64_t h = 0; h < s.group_heads(); ++h) {
      const std::int64_t head = group * s.group_heads() + h;
      float dy_x = 0;
      for (std::int64_t p = 0; p < s.head_dim; ++p)
        dy_x += g.of_y(k.token(i, s), head, p) * g.in.x(k.token(j, s), head, p);
      sum += dy_x * g.in.passed(k, head, i, j) * g.in.dt[k.token(j, s) * s.heads + head];
    }
    const std::int64_t at = (k.number * s.groups + group) * s.chunk;
    g.d_pairs[(at + i) * s.chunk + j] = k.first(i) <= j ? sum : 0;
  });
}

template <class T>  // a thread for each token and element of its B
__global__ void groups_backward_kernel(const ScanBackward<T> g) {
  const Scan<T>& in = g.in;
  const MambaShape& s = in.s;
  if (thread_number() >= s.tokens() * s.states()) return;
  const std::int64_t token = thread_number() / s.states(), at = thread_number() % s.states(),
                     group = at / s.state_dim, n = at % s.state_dim, t = token % s.length;
  const Chunk k = in.chunk(token / s.length * s.chunks() + t / s.chunk);
  const std::int64_t of = t - k.begin;
  const float* const pairs = g.d_pairs + (k.number * s.groups + group) * s.chunk * s.chunk;
  float dc = 0, db = 0;
  for (std::int64_t j = k.first(of); j <= of; ++j)
    dc += pairs[of * s.chunk + j] * in.b(k.token(j, s), group, n);
  for (std::int64_t i = of; i < k.size; ++i)
    db += pairs[i * s.chunk + of] * in.c(k.token(i, s), group, n);
  for (std::int64_t h = 0; h < s.group_heads(); ++h) {
    const std::int64_t head = group * s.group_heads() + h;
    const float *const state = in.state(k, head) + n, *const d_state = g.d_state(k, head) + n;
    float read = 0, written = 0;
    for (std::int64_t p = 0; p < s.head_dim; ++p) {
      read += g.of_y(token, head, p) * state[p * s.state_dim];
      written += in.x(token, head, p) * d_state[p * s.state_dim];
    }
    dc += in.from_before(k, head, of) * read;
    db += in.to_end(k, head, of) * in.dt[token * s.heads + head] * written;
  }
  T* const row = g.d_mixed + token * s.mixed() + at;
  row[s.b_of_mixed()] = static_cast<T>(db);
  row[s.c_of_mixed()] = static_cast<T>(dc);
}

}  // namespace

std::size_t chunk_scan_backward_work(const MambaShape& s) {
  Tables tables(nullptr);
  ScanBackward<float> g{};
  g.in.s = s;
  take(g.in, tables);
  take_gradients(g, tables);
  g.d_pairs = tables.take(pairs_of(s));
  std::size_t bytes = tables.bytes();
  if constexpr (kHopper) bytes = std::max(bytes, hopper::backward_work(s));
  return bytes;
}

template <class T, class G>
void chunk_scan_backward(T* d_mixed, T* d_projected, const ScanGradients<G>& gradients, const T* dy,
                         const T* mixed, const T* projected, const ScanWeights<T>& weights,
                         const std::int32_t* first_key, const MambaShape& s, void* work,
                         cudaStream_t stream) {
  if (s.tokens() == 0) return;
  Tables tables(work);
  ScanBackward<T> g{.in = {mixed, projected, weights, first_key, s},
                    .dy = dy,
                    .d_mixed = d_mixed,
                    .d_projected = d_projected};
  if constexpr (kHopper && std::is_same_v<T, bf16>)
    if (hopper::fit(g.in, dy) && aligned(d_mixed))
      return hopper::backward(g, gradients, work, stream);
  take(g.in, tables);
  take_gradients(g, tables);
  g.d_pairs = tables.take(pairs_of(s));
  const std::int64_t chunks = all_chunks(s);
  find_states(g.in, {}, stream);
  states_backward_kernel<<<of_heads(chunks, s), kThreads, 0, stream>>>(g);
  pass_backward_kernel<<<blocks_for(s.sequences * s.heads * s.state()), kThreads, 0, stream>>>(g);
  carried_kernel<<<of_heads(chunks, s), kThreads, 0, stream>>>(g);
  tokens_backward_kernel<<<of_heads(s.tokens(), s), kOfToken, 0, stream>>>(g);
  steps_backward_kernel<<<blocks_for(chunks * s.heads), kThreads, 0, stream>>>(g);
  pairs_backward_kernel<<<blocks_for(chunks * s.groups * s.chunk * s.chunk), kThreads, 0, stream>>>(
      g);
  groups_backward_kernel<<<blocks_for(s.tokens() * s.states()), kThreads, 0, stream>>>(g);
  check(cudaGetLastError());
  add_gradients(gradients, g, stream);
}

#define INSTANTIATE(T, G)                                                                          \
  template void chunk_scan_backward(T*, T*, const ScanGradients<G>&, const T*, const T*, const T*, \
                                    const ScanWeights<T>&, const std::int32_t*, const MambaShape&, \
                                    void*, cudaStream_t);
INSTANTIATE(float, float)
INSTANTIATE(bf16, float)
INSTANTIATE(fp16, float)
INSTANTIATE(bf16, bf16)
#undef INSTANTIATE

}  // namespace mt::cuda
