// What the forward and the backward of chunk_scan.h have in common on the GPU.
#pragma once

#include "kernels/chunk_scan.h"
#include "kernels/reduce.cuh"

namespace mt::cuda::scan {

constexpr int kThreads = 256;

inline unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>(ceil_div(count, kThreads));
}
__device__ inline std::int64_t thread_number() {
  return blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
}

// Chunk: a chunk of a sequence, as the threads that work on it see it.
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
  // A token sees either all that came before its chunk or nothing of it.
  __device__ bool sees_before(std::int64_t i) const {
    return !first_key || first_key[i] < max(begin, std::int64_t{1});
  }
  // The first token of i's document that is in the chunk.
  __device__ std::int64_t first(std::int64_t i) const {
    return first_key ? max(first_key[i] - begin, std::int64_t{0}) : 0;
  }
};

// Scan: what is read, and tables that kernels fill for one another.
template <class T>
struct Scan {
  const T *mixed, *projected;
  ScanWeights<T> weights;
  const std::int32_t* first_key;
  MambaShape s;
  float* dt = nullptr;      // [tokens, heads]
  float* a = nullptr;       // sums of dt A from the beginning of each chunk on: [tokens, heads]
  float* pairs = nullptr;   // C B^T: [all chunks, groups, chunk, chunk]
  float* states = nullptr;  // that come into chunks: [all chunks, heads, state()]

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

// Calls sum(chunk, group, i, j) by a thread for each pair of tokens of a chunk, the second of which
// is not behind the first, and each group.
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

// ScanBackward: the same for the backward, with the names of kernels/chunk_scan.h.
template <class T>
struct ScanBackward {
  Scan<T> in;
  const T* dy;
  T *d_mixed, *d_projected;
  float* d_states = nullptr;  // dS_out of each chunk, as Scan's states
  float* d_pairs = nullptr;   // K, as Scan's pairs
  // [tokens, heads]
  float* da = nullptr;       // dy V - dt x G
  float* by_step = nullptr;  // x G
  float* out = nullptr;      // the part of dt x G that comes of dS_out
  float* skip = nullptr;     // dy x
  // [all chunks, heads]
  float* carried = nullptr;                                           // e^a_last <dS_out, S>
  float *sum_bias = nullptr, *sum_a_log = nullptr, *sum_d = nullptr;  // gradients of one chunk

  __device__ float of_y(std::int64_t token, std::int64_t head, std::int64_t p) const {
    return to_float(dy[token * in.s.inner() + head * in.s.head_dim + p]);
  }
  __device__ float* d_state(const Chunk& k, std::int64_t head) const {
    return d_states + (k.number * in.s.heads + head) * in.s.state();
  }
};

// Returns y - D x of token i in channel p.  factor[j] = (C[i] B[j]) e^(a[i] - a[j]) dt[j].
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

// Makes read()'s factors of token i, by all threads of the block.
template <class T>
__device__ void find_factors(const Scan<T>& in, const Chunk& k, std::int64_t head, std::int64_t i,
                             float* factor) {
  const float* const pairs = in.pair_row(k, in.group(head), i);
  for (std::int64_t j = k.first(i) + threadIdx.x; j <= i; j += blockDim.x)
    factor[j] = pairs[j] * in.passed(k, head, i, j) * in.dt[k.token(j, in.s) * in.s.heads + head];
}

constexpr int kOfToken = 64;  // threads of a block that has a token and a head

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

inline std::int64_t all_chunks(const MambaShape& s) { return s.sequences * s.chunks(); }
inline std::int64_t pairs_of(const MambaShape& s) {
  return all_chunks(s) * s.groups * s.chunk * s.chunk;
}

template <class T>
void take(Scan<T>& in, Tables& tables) {
  const MambaShape& s = in.s;
  in.dt = tables.take(s.tokens() * s.heads);
  in.a = tables.take(s.tokens() * s.heads);
  in.pairs = tables.take(pairs_of(s));
  in.states = tables.take(all_chunks(s) * s.heads * s.state());
}

template <class T>
void take_gradients(ScanBackward<T>& g, Tables& tables) {
  const MambaShape& s = g.in.s;
  g.d_states = tables.take(all_chunks(s) * s.heads * s.state());
  for (float** table : {&g.da, &g.by_step, &g.out, &g.skip})
    *table = tables.take(s.tokens() * s.heads);
  for (float** table : {&g.carried, &g.sum_bias, &g.sum_a_log, &g.sum_d})
    *table = tables.take(all_chunks(s) * s.heads);
}

inline unsigned of_heads(std::int64_t count, const MambaShape& s) {
  return static_cast<unsigned>(count * s.heads);
}

// Fills the tables, last those of the states that come into chunks.
template <class T>
void find_states(const Scan<T>& in, const ScanEnds<float>& ends, cudaStream_t stream);

// Adds up what chunks have of the gradients.
template <class G, class T>
void add_gradients(const ScanGradients<G>& gradients, const ScanBackward<T>& g,
                   cudaStream_t stream) {
  const MambaShape& s = g.in.s;
  add_parts<G>(gradients.dt_bias, nullptr, g.sum_bias, all_chunks(s), s.heads, stream);
  add_parts<G>(gradients.a_log, nullptr, g.sum_a_log, all_chunks(s), s.heads, stream);
  add_parts<G>(gradients.d, nullptr, g.sum_d, all_chunks(s), s.heads, stream);
}

}  // namespace mt::cuda::scan
