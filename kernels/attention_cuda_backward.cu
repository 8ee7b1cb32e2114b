// Attention's backward for every GPU, and the choice between it and Hopper's.  After delta, one
// kernel runs twice.  A block holds a tile of its own, 16 lines of two tensors for each warp, and
// walks tiles of the two others, one on its way while the other is used, or on Turing one after the
// other:
//   own K, V:  S^T = K Q^T, dP^T = V dO^T; dK += dS^T Q, dV += P^T dO
//   own Q, dO: S = Q K^T, dP = dO V^T; dQ += dS K
// Lines of Q and dO are rows (attention_tile.cuh), those of K and V keys.  Every sum is made by one
// thread in the order of the tiles, so that results do not depend on timing.
#include <algorithm>

#include "kernels/attention_tile.cuh"
#include "kernels/cuda_check.h"

namespace mt::cuda {
namespace {

template <class T>
struct Tensors {
  T *dq, *dk, *dv;
  const T *d_o, *o;
  const float* lse;
  const T *q, *k, *v;
  float* delta;  // scratch, as lse
};

struct RowState {
  float lse2, delta;  // lse log2(e)
  int first, last;    // keys that it sees
};

template <class T, int kHeadDim, bool kOwnKeys, Code kOf = kCode>
struct Shared {
  static constexpr int kStages = kRoomy<kOf> ? 2 : 1;
  static constexpr bool kWide = sizeof(T) == 4;
  static constexpr int kWarps = kWide ? 256 / kHeadDim : kHeadDim == 256 ? 2 : 4;
  static constexpr int kOwn = 16 * kWarps, kOther = (kWide ? 2048 : 4096) / kHeadDim;
  // Channels of dK and dV that one block makes, for both to fit the registers.
  static constexpr int kMade = kOwnKeys ? std::min(kHeadDim, 128) : kHeadDim;
  using Factor = Left<T, kOther>;
  struct Others {
    Tile<T, kOther, kHeadDim> first, second;
  };
  Tile<T, kOwn, kHeadDim> first, second;  // K and V, or Q and dO
  Others others[kStages];
  RowState rows[kOwnKeys ? kStages * kOther : kOwn];
  typename Factor::Strip strips[kWarps];
};

template <class T>
struct Arguments {
  AttentionArguments a;
  Tensors<T> t;
};

template <class T>
__device__ RowState state_of(const HeadGroup& at, const Tensors<T>& t, int row) {
  if (row >= at.rows()) return {.lse2 = kInfinity, .delta = 0, .first = 0, .last = -1};
  const std::int64_t i = at.lse_place(row);
  return {t.lse[i] * kLog2e, t.delta[i], at.first(row), at.last(row)};
}

template <class T, class Memory, bool kOwnKeys>
struct Block {
  static constexpr int kOwn = Memory::kOwn, kOther = Memory::kOther;
  static constexpr int kThreads = 32 * Memory::kWarps, kStages = Memory::kStages;
  const AttentionArguments& a;
  const Tensors<T>& t;
  const HeadGroup& at;
  Memory& shared;
  const int own;  // its first line

  __device__ void load_states(int to, int count, int first) {
    for (int i = threadIdx.x; i < count; i += kThreads)
      shared.rows[to + i] = state_of(at, t, first + i);
  }

  __device__ void load_own() {
    if constexpr (kOwnKeys) {
      load_keys<kThreads>(shared.first, t.k, at, own);
      load_keys<kThreads>(shared.second, t.v, at, own);
    } else {
      load_queries<kThreads>(shared.first, t.q, at, own);
      load_output_gradients<kThreads>(shared.second, t.d_o, at, own);
      load_states(0, kOwn, own);
    }
  }
  __device__ void load_others(int n) {
    auto& others = shared.others[n % kStages];
    if constexpr (kOwnKeys) {
      load_queries<kThreads>(others.first, t.q, at, n * kOther);
      load_output_gradients<kThreads>(others.second, t.d_o, at, n * kOther);
      load_states(n % kStages * kOther, kOther, n * kOther);
    } else {
      load_keys<kThreads>(others.first, t.k, at, n * kOther);
      load_keys<kThreads>(others.second, t.v, at, n * kOther);
    }
    copies_commit();
  }
  // The tiles of others that meet the own ones.
  __device__ int begin() const {
    const int line = kOwnKeys ? at.sizes.first_query(at.sequence, own) * at.group : at.first(own);
    return line / kOther;
  }
  __device__ int end() const {
    if (kOwnKeys && own >= at.sizes.kv_length) return begin();  // behind the sequence's keys
    const int last = min(own + kOwn, kOwnKeys ? at.sizes.kv_length : at.rows()) - 1;
    const int lines =
        kOwnKeys ? at.sizes.end_query(at.sequence, last) * at.group : at.last(last) + 1;
    return (lines + kOther - 1) / kOther;
  }

  // From S and dP, both of this warp's 16 own lines by the others of step n: P as it was multiplied
  // with V, and dS.
  __device__ void gradients(float (&p)[kOther / 2], float (&ds)[kOther / 2], int n,
                            std::uint32_t sample) {
    const float scale = a.sizes.scale * kLog2e;
#pragma unroll
    for (int i = 0; i < kOther / 2; ++i) {
      const int mine = threadIdx.x / 32 * 16 + lane() / 4 + i / 2 % 2 * 8;
      const int other = i / 4 * 8 + lane() % 4 * 2 + i % 2;
      const int key = kOwnKeys ? own + mine : n * kOther + other;
      const int line = kOwnKeys ? n * kOther + other : own + mine;
      const RowState row = shared.rows[kOwnKeys ? n % kStages * kOther + other : mine];
      const bool sees = key >= row.first && key <= row.last;
      float factor = 1;
      if (a.dropout) factor = at.factor(sample, line, key);
      if (a.sizes.bias && sees) p[i] += at.bias(line, key);
      float slope = 1;
      if (a.sizes.softcap > 0) p[i] = a.sizes.capped(p[i], slope);
      p[i] = sees ? exp2_approx(fmaf(p[i], scale, -row.lse2)) : 0;
      ds[i] = p[i] * (factor * ds[i] - row.delta) * slope;
      p[i] *= factor;
    }
  }
};

template <class T, int kHeadDim, bool kOwnKeys>
__global__ void __launch_bounds__(32 * Shared<T, kHeadDim, kOwnKeys>::kWarps)
    gradient_kernel(const Arguments<T> arguments) {
  using Memory = Shared<T, kHeadDim, kOwnKeys>;
  constexpr int kOwn = Memory::kOwn, kOther = Memory::kOther, kMade = Memory::kMade;
  constexpr int kParts = kHeadDim / kMade, kStride = row_stride<T>(kHeadDim);
  extern __shared__ __align__(16) unsigned char bytes[];
  Memory& shared = *reinterpret_cast<Memory*>(bytes);
  const AttentionArguments& a = arguments.a;
  const Tensors<T>& t = arguments.t;
  const int groups = a.sizes.sequences * a.sizes.kv_heads, parts = groups * kParts;
  const HeadGroup at(a, blockIdx.x % parts / kParts);
  const int part = blockIdx.x % kParts * kMade, tiles = gridDim.x / parts;
  // The longest first.
  const int tile = kOwnKeys ? blockIdx.x / parts : tiles - 1 - blockIdx.x / parts;
  Block<T, Memory, kOwnKeys> block{a, t, at, shared, tile * kOwn};
  const int begin = block.begin(), end = block.end();
  const std::uint32_t sample = a.dropout ? a.keep.sample(at.sequence) : 0;
  const int warp = threadIdx.x / 32;

  float d_first[kMade / 2] = {}, d_second[kOwnKeys ? kMade / 2 : 1] = {};
  block.load_own();
  if (Memory::kStages == 2) block.load_others(begin);
  for (int n = begin; n < end; ++n) {
    if (Memory::kStages == 1) {
      __syncthreads();  // those of the step before have been read
      block.load_others(n);
    }
    copies_wait();
    __syncthreads();  // step n's tiles are there, and those of the step before have been read
    if (Memory::kStages == 2 && n + 1 < end) block.load_others(n + 1);
    auto& others = shared.others[n % Memory::kStages];
    float p[kOther / 2] = {}, ds[kOther / 2] = {};
    multiply_rows<kHeadDim, kOther>(p, shared.first.row(warp * 16), others.first.row(0));
    multiply_rows<kHeadDim, kOther>(ds, shared.second.row(warp * 16), others.second.row(0));
    block.gradients(p, ds, n, sample);
    if constexpr (kOwnKeys)
      multiply<kStride, kMade>(d_second, typename Memory::Factor(p, shared.strips[warp]),
                               others.second.row(0) + part);
    multiply<kStride, kMade>(d_first, typename Memory::Factor(ds, shared.strips[warp]),
                             others.first.row(0) + part);
  }

  const int mine = tile * kOwn + warp * 16, channels = min(a.sizes.head_dim - part, kMade);
  const int lines = (kOwnKeys ? a.sizes.kv_length : at.rows()) - mine;  // keys of all sequences
  const auto store = [&](const auto& sums, float factor, auto& by_way_of, T* to) {
    const float factors[2] = {factor, factor};
    store_rows<kMade>(
        sums, factors, by_way_of, warp * 16, lines, channels, a.whole_units, [&](int i) {
          return to + (kOwnKeys ? at.key_place(mine + i) : at.q_place(mine + i)) + part;
        });
  };
  store(d_first, a.sizes.scale, shared.first, kOwnKeys ? t.dk : t.dq);
  if constexpr (kOwnKeys) store(d_second, 1, shared.second, t.dv);
}

// A warp for each row of each head.
template <class T>
__global__ void delta_kernel(float* delta, const T* d_o, const T* o, const AttentionSizes s) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (i >= std::int64_t{s.sequences} * s.q_length * s.heads) return;
  float sum = 0;
  for (int c = lane(); c < s.head_dim; c += 32)
    sum += static_cast<float>(d_o[i * s.head_dim + c]) * static_cast<float>(o[i * s.head_dim + c]);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(0xffffffff, sum, distance);
  if (lane() > 0) return;
  const std::int64_t head = i % s.heads, row = i / s.heads;
  delta[(row / s.q_length * s.heads + head) * s.q_length + row % s.q_length] = sum;
}

template <int kHeadDim, bool kOwnKeys, class T>
void launch(const Arguments<T>& arguments, cudaStream_t stream) {
  with_code([&]<Code kOf>() {
    using Memory = Shared<T, kHeadDim, kOwnKeys, kOf>;
    static_assert(sizeof(Memory) <= kSharedBytes<kOf>);
    const AttentionSizes& s = arguments.a.sizes;
    const int lines = kOwnKeys ? s.kv_length : s.q_length * s.group();
    const int tiles = (lines + Memory::kOwn - 1) / Memory::kOwn;
    const int blocks = tiles * s.sequences * s.kv_heads * (kHeadDim / Memory::kMade);
    const auto kernel = gradient_kernel<T, kHeadDim, kOwnKeys>;
    check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Memory)));
    kernel<<<static_cast<unsigned>(blocks), 32 * Memory::kWarps, sizeof(Memory), stream>>>(
        arguments);
  });
  check(cudaGetLastError());
}

}  // namespace

template <class T>
void attention_delta(float* delta, const T* d_o, const T* o, const AttentionSizes& s,
                     cudaStream_t stream) {
  const std::int64_t rows = std::int64_t{s.sequences} * s.heads * s.q_length;
  delta_kernel<<<static_cast<unsigned>((rows + 7) / 8), 256, 0, stream>>>(delta, d_o, o, s);
  check(cudaGetLastError());
}

template <class T>
std::size_t attention_backward_work(const AttentionShape& s) {
  const auto rows = static_cast<std::size_t>(s.sequences * s.heads * s.q_length);
  const std::size_t generic = rows * sizeof(float);
  if constexpr (kHopper && std::is_same_v<T, bf16>)
    if (hopper::attention_fits(s)) return std::max(generic, hopper::attention_backward_work(s));
  return generic;
}

template <class T>
void attention_backward(T* dq, T* dk, T* dv, const T* d_o, const T* o, const float* lse, const T* q,
                        const T* k, const T* v, const std::int32_t* first_key,
                        const AttentionShape& s, const Dropout& dropout, void* work,
                        cudaStream_t stream) {
  if (s.sequences * s.heads * s.q_length == 0) return;
  const Arguments<T> arguments{
      AttentionArguments(s, first_key, dropout, sizeof(T), dq, dk, dv, d_o, o, q, k, v),
      {dq, dk, dv, d_o, o, lse, q, k, v, static_cast<float*>(work)}};
  if constexpr (kHopper && std::is_same_v<T, bf16>)
    if (arguments.a.whole_units && hopper::attention_fits(s) && hopper_kernels())
      return hopper::attention_backward(dq, dk, dv, d_o, o, lse, q, k, v, first_key, s, dropout,
                                        work, stream);
  attention_delta(arguments.t.delta, d_o, o, arguments.a.sizes, stream);
  with_channels(s.head_dim, [&]<int kHeadDim>() {
    launch<kHeadDim, true>(arguments, stream);
    launch<kHeadDim, false>(arguments, stream);
  });
}

template void attention_delta(float*, const float*, const float*, const AttentionSizes&,
                              cudaStream_t);
template void attention_delta(float*, const bf16*, const bf16*, const AttentionSizes&,
                              cudaStream_t);
template void attention_delta(float*, const __half*, const __half*, const AttentionSizes&,
                              cudaStream_t);
template std::size_t attention_backward_work<float>(const AttentionShape&);
template std::size_t attention_backward_work<bf16>(const AttentionShape&);
template std::size_t attention_backward_work<__half>(const AttentionShape&);
template void attention_backward(float*, float*, float*, const float*, const float*, const float*,
                                 const float*, const float*, const float*, const std::int32_t*,
                                 const AttentionShape&, const Dropout&, void*, cudaStream_t);
template void attention_backward(bf16*, bf16*, bf16*, const bf16*, const bf16*, const float*,
                                 const bf16*, const bf16*, const bf16*, const std::int32_t*,
                                 const AttentionShape&, const Dropout&, void*, cudaStream_t);
template void attention_backward(__half*, __half*, __half*, const __half*, const __half*,
                                 const float*, const __half*, const __half*, const __half*,
                                 const std::int32_t*, const AttentionShape&, const Dropout&, void*,
                                 cudaStream_t);

}  // namespace mt::cuda
