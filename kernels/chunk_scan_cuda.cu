// The plain form: each sum by one thread or one block, in order, all in f32 but for what is read
// and stored.  Rows of the work's tables: pairs [sequences chunks, groups, chunk, chunk], states
// [sequences chunks, heads, head_dim, state_dim], what heads have of a token [tokens, heads].
#include "kernels/chunk_scan.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(std::int64_t count) { return static_cast<unsigned>(ceil_div(count, kThreads)); }
__device__ std::int64_t thread_number() {
  return blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
}

// Chunk: one of a sequence, as threads that work on it see it.
struct Chunk {
  std::int64_t number, sequence, begin, size;  // number: among those of all sequences
  const std::int32_t* first_key;

  __device__ Chunk(std::int64_t of_all, const std::int32_t* first_keys, const MambaShape& s)
      : number(of_all),
        sequence(of_all / s.chunks()),
        begin(of_all % s.chunks() * s.chunk),
        size(s.end_of(begin) - begin),
        first_key(first_keys ? first_keys + sequence * s.length + begin : nullptr) {}

  __device__ std::int64_t token(std::int64_t i, const MambaShape& s) const {
    return sequence * s.length + begin + i;
  }
  // Of what came before the chunk, or the sequence, a token sees all or nothing.
  __device__ bool sees_before(std::int64_t i) const {
    return !first_key || first_key[i] < max(begin, std::int64_t{1});
  }
  // The first token of i's document that is in the chunk.
  __device__ std::int64_t first(std::int64_t i) const {
    return first_key ? max(first_key[i] - begin, std::int64_t{0}) : 0;
  }
};

template <class T>
struct Scan {
  const T *mixed, *projected;
  ScanWeights<T> weights;
  const std::int32_t* first_key;
  MambaShape s;
  float *dt = nullptr, *a = nullptr;  // a: sums of dt A from the beginning of each chunk on
  float *pairs = nullptr, *states = nullptr;

  __device__ Chunk chunk(std::int64_t number) const { return {number, first_key, s}; }
  __device__ float x(std::int64_t token, std::int64_t head, std::int64_t p) const {
    return to_float(mixed[token * s.mixed() + head * s.head_dim + p]);
  }
  __device__ float b(std::int64_t token, std::int64_t group, std::int64_t n) const {
    return to_float(mixed[token * s.mixed() + s.b_of_mixed() + group * s.state_dim + n]);
  }
  __device__ float c(std::int64_t token, std::int64_t group, std::int64_t n) const {
    return to_float(mixed[token * s.mixed() + s.c_of_mixed() + group * s.state_dim + n]);
  }
  __device__ float raw(std::int64_t token, std::int64_t head) const {
    return to_float(projected[token * s.projected() + s.dt_of_projected() + head]) +
           to_float(weights.dt_bias[head]);
  }
  __device__ float decay(std::int64_t head) const { return -expf(to_float(weights.a_log[head])); }
  __device__ std::int64_t group(std::int64_t head) const { return head / s.group_heads(); }
  __device__ float* pair_row(const Chunk& k, std::int64_t group, std::int64_t i) const {
    return pairs + ((k.number * s.groups + group) * s.chunk + i) * s.chunk;
  }
  __device__ float* state(const Chunk& k, std::int64_t head) const {
    return states + (k.number * s.heads + head) * s.state();
  }

  __device__ float passed(const Chunk& k, std::int64_t head, std::int64_t i, std::int64_t j) const {
    return expf(a[k.token(i, s) * s.heads + head] - a[k.token(j, s) * s.heads + head]);
  }
  // e^a[i], as far as i sees what was before.
  __device__ float from_before(const Chunk& k, std::int64_t head, std::int64_t i) const {
    return k.sees_before(i) ? expf(a[k.token(i, s) * s.heads + head]) : 0;
  }
  // e^(a_last - a[j]), as far as what is behind sees j.
  __device__ float to_end(const Chunk& k, std::int64_t head, std::int64_t j) const {
    return j >= k.first(k.size - 1) ? passed(k, head, k.size - 1, j) : 0;
  }
};

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

// A thread for each pair of tokens of a chunk and each group.  to[i, j] = sum(i, j) where i sees j.
template <class T, class PairSum>
__device__ void for_pairs(const Scan<T>& in, const PairSum& sum) {
  const MambaShape& s = in.s;
  std::int64_t at = thread_number();
  if (at >= s.sequences * s.chunks() * s.groups * s.chunk * s.chunk) return;
  const std::int64_t j = at % s.chunk;
  at /= s.chunk;
  const std::int64_t i = at % s.chunk;
  at /= s.chunk;
  const Chunk k = in.chunk(at / s.groups);
  if (i < k.size && j <= i) sum(k, at % s.groups, i, j);
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

// A block for each chunk and head.  What the chunk adds to the state behind it.
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

// A thread for each element of each sequence's states: what chunks add becomes what comes into
// them.
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

// What token i reads, less D x, in channel p.  factor[j] = (C[i] B[j]) e^(a[i] - a[j]) dt[j].
template <class T>
__device__ float read(const Scan<T>& in, const Chunk& k, std::int64_t head, std::int64_t i,
                      std::int64_t p, const float* factor) {
  const MambaShape& s = in.s;
  const float* const state = in.state(k, head) + p * s.state_dim;
  float sum = 0, of_state = 0;
  for (std::int64_t j = k.first(i); j <= i; ++j) sum += factor[j] * in.x(k.token(j, s), head, p);
  for (std::int64_t n = 0; n < s.state_dim; ++n)
    of_state += state[n] * in.c(k.token(i, s), in.group(head), n);
  return sum + in.from_before(k, head, i) * of_state;
}

template <class T>
__device__ void find_factors(const Scan<T>& in, const Chunk& k, std::int64_t head, std::int64_t i,
                             float* factor) {
  const float* const pairs = in.pair_row(k, in.group(head), i);
  for (std::int64_t j = k.first(i) + threadIdx.x; j <= i; j += blockDim.x)
    factor[j] = pairs[j] * in.passed(k, head, i, j) * in.dt[k.token(j, in.s) * in.s.heads + head];
}

constexpr int kOfToken = 64;

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

// --- Backward -----------------------------------------------------------------------------------

template <class T>
struct ScanBackward {
  Scan<T> in;
  const T* dy;
  T *d_mixed, *d_projected;
  float *d_states = nullptr, *d_pairs = nullptr;  // of what goes out of each chunk; K
  // Of tokens and heads: dy V - dt x G, x G, what dt x G has of dS_out, dy x.
  float *da = nullptr, *by_step = nullptr, *out = nullptr, *skip = nullptr;
  // Of chunks and heads: e^a_last <dS_out, S>, and the sums of gradients.
  float *carried = nullptr, *sum_bias = nullptr, *sum_a_log = nullptr, *sum_d = nullptr;

  __device__ float of_y(std::int64_t token, std::int64_t head, std::int64_t p) const {
    return to_float(dy[token * in.s.inner() + head * in.s.head_dim + p]);
  }
  __device__ float* d_state(const Chunk& k, std::int64_t head) const {
    return d_states + (k.number * in.s.heads + head) * in.s.state();
  }
};

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

template <class T>  // a block for each token and head: dx, and what is of both
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

// --- Launching ----------------------------------------------------------------------------------

// Takes tables of f32 from the work, or, without any, counts them.
class Tables {
 public:
  explicit Tables(void* work) : work_(static_cast<float*>(work)) {}
  float* take(std::int64_t count) {
    float* const table = work_ == nullptr ? nullptr : work_ + taken_;
    taken_ += count;
    return table;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(taken_) * sizeof(float); }

 private:
  float* work_;
  std::int64_t taken_ = 0;
};

std::int64_t all_chunks(const MambaShape& s) { return s.sequences * s.chunks(); }

template <class T>
void take(Scan<T>& in, Tables& tables) {
  const MambaShape& s = in.s;
  in.dt = tables.take(s.tokens() * s.heads);
  in.a = tables.take(s.tokens() * s.heads);
  in.pairs = tables.take(all_chunks(s) * s.groups * s.chunk * s.chunk);
  in.states = tables.take(all_chunks(s) * s.heads * s.state());
}

template <class T>
void take(ScanBackward<T>& g, Tables& tables) {
  take(g.in, tables);
  const MambaShape& s = g.in.s;
  g.d_pairs = tables.take(all_chunks(s) * s.groups * s.chunk * s.chunk);
  g.d_states = tables.take(all_chunks(s) * s.heads * s.state());
  for (float** table : {&g.da, &g.by_step, &g.out, &g.skip})
    *table = tables.take(s.tokens() * s.heads);
  for (float** table : {&g.carried, &g.sum_bias, &g.sum_a_log, &g.sum_d})
    *table = tables.take(all_chunks(s) * s.heads);
}

unsigned of_heads(std::int64_t count, const MambaShape& s) {
  return static_cast<unsigned>(count * s.heads);
}

// The states that come into chunks.
template <class T>
void find_states(const Scan<T>& in, const ScanEnds<float>& ends, cudaStream_t stream) {
  const MambaShape& s = in.s;
  const std::int64_t chunks = all_chunks(s);
  steps_kernel<<<blocks_for(chunks * s.heads), kThreads, 0, stream>>>(in);
  pairs_kernel<<<blocks_for(chunks * s.groups * s.chunk * s.chunk), kThreads, 0, stream>>>(in);
  states_kernel<<<of_heads(chunks, s), kThreads, 0, stream>>>(in);
  pass_kernel<<<blocks_for(s.sequences * s.heads * s.state()), kThreads, 0, stream>>>(in, ends);
  check(cudaGetLastError());
}

}  // namespace

std::size_t chunk_scan_work(const MambaShape& s) {
  Tables tables(nullptr);
  Scan<float> in{};
  in.s = s;
  take(in, tables);
  return tables.bytes();
}

std::size_t chunk_scan_backward_work(const MambaShape& s) {
  Tables tables(nullptr);
  ScanBackward<float> g{};
  g.in.s = s;
  take(g, tables);
  return tables.bytes();
}

template <class T>
void chunk_scan_forward(T* y, const T* mixed, const T* projected, const ScanWeights<T>& weights,
                        const std::int32_t* first_key, const ScanEnds<float>& ends,
                        const MambaShape& s, void* work, cudaStream_t stream) {
  if (s.tokens() == 0) return;
  Tables tables(work);
  Scan<T> in{mixed, projected, weights, first_key, s};
  take(in, tables);
  find_states(in, ends, stream);
  output_kernel<<<of_heads(s.tokens(), s), kOfToken, 0, stream>>>(y, in);
  check(cudaGetLastError());
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
  take(g, tables);
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
  add_parts<G>(gradients.dt_bias, nullptr, g.sum_bias, chunks, s.heads, stream);
  add_parts<G>(gradients.a_log, nullptr, g.sum_a_log, chunks, s.heads, stream);
  add_parts<G>(gradients.d, nullptr, g.sum_d, chunks, s.heads, stream);
}

#define INSTANTIATE_BACKWARD(T, G)                                                                 \
  template void chunk_scan_backward(T*, T*, const ScanGradients<G>&, const T*, const T*, const T*, \
                                    const ScanWeights<T>&, const std::int32_t*, const MambaShape&, \
                                    void*, cudaStream_t);
#define INSTANTIATE(T)                                                                             \
  template void chunk_scan_forward(T*, const T*, const T*, const ScanWeights<T>&,                  \
                                   const std::int32_t*, const ScanEnds<float>&, const MambaShape&, \
                                   void*, cudaStream_t);                                           \
  INSTANTIATE_BACKWARD(T, float)
INSTANTIATE(float)
INSTANTIATE(bf16)
INSTANTIATE(fp16)
INSTANTIATE_BACKWARD(bf16, bf16)
#undef INSTANTIATE
#undef INSTANTIATE_BACKWARD

}  // namespace mt::cuda
