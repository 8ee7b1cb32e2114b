// The scan of chunk_scan.h on Hopper's matrix units: bf16, heads of 64 channels and states of 128,
// which is what models have. Whatever is no bf16 to begin with, factors of pairs and states, goes
// into products as two of them, the number rounded and what is left of it, so that sums are what
// f32 would give, to some 16 bits of each factor.  Chunks have kRows tokens whatever the shape
// says: each of a block's warps has 16 of them.
#pragma once

#include "kernels/chunk_scan_cuda.cuh"
#include "kernels/gpu.h"
#include "kernels/warp_product.cuh"

namespace mt::cuda::scan::hopper {

constexpr int kRows = 128, kChannels = 64, kStates = 128;
constexpr int kWarps = kRows / 16;
static_assert(kThreads == 32 * kWarps);
constexpr int kOfChannels = row_stride<bf16>(kChannels), kOfStates = row_stride<bf16>(kStates);

using ChannelTile = bf16[kRows][kOfChannels];  // tokens by channels
using StateTile = bf16[kRows][kOfStates];      // tokens by elements of B or C

// A state, in two parts: channels by elements.
struct SplitState {
  bf16 high[kChannels][kOfStates], low[kChannels][kOfStates];
};

// What is left of numbers that are rounded to bf16.
template <int N>
struct Residue {
  float left[N];
  __device__ explicit Residue(const float (&of)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) left[i] = of[i] - to_float(static_cast<bf16>(of[i]));
  }
};

// sums += factors B, where the factors, 16 by 16 as products leave them, are split; B has 16 rows.
template <int kStride, int kColumns>
__device__ void multiply_split(float (&sums)[kColumns / 2], const float (&factors)[8],
                               const bf16* b) {
  Left<bf16, 16>::Strip none;
  multiply<kStride, kColumns, 16>(sums, Left<bf16, 16>(factors, none), b);
  multiply<kStride, kColumns, 16>(sums, Left<bf16, 16>(Residue<8>(factors).left, none), b);
}

// The chunk's rows of a tile of kColumns columns, which are `row` elements apart in memory; zeros
// behind them.  All threads; there after copies_wait() and a barrier.
template <int kColumns, int kStride>
__device__ void load_tile(bf16 (&to)[kRows][kStride], const bf16* from, std::int64_t row,
                          int rows) {
  constexpr int kUnits = kColumns / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kUnits; i += kThreads) {
    const int r = i / kUnits, c = i % kUnits * 8;
    copy_16_bytes_or_zeros(&to[r][c], from + (r < rows ? r * row : 0) + c, r < rows);
  }
}

// Returns the sum of this thread's elements times those of `beside`, if it is not null.
__device__ inline float load_state(SplitState& to, const float* from,
                                   const float* beside = nullptr) {
  constexpr int kTogether = 4;  // loads on their way
  float product = 0;
  for (int first = static_cast<int>(threadIdx.x) * 4; first < kChannels * kStates;
       first += kTogether * kThreads * 4) {
    float4 x[kTogether], y[kTogether] = {};
#pragma unroll
    for (int u = 0; u < kTogether; ++u) {
      const int i = first + u * kThreads * 4;
      x[u] = *reinterpret_cast<const float4*>(from + i);
      if (beside != nullptr) y[u] = *reinterpret_cast<const float4*>(beside + i);
    }
#pragma unroll
    for (int u = 0; u < kTogether; ++u) {
      const int i = first + u * kThreads * 4, p = i / kStates, n = i % kStates;
      const float of[4] = {x[u].x, x[u].y, x[u].z, x[u].w};
      const Residue<4> low(of);
      *reinterpret_cast<uint2*>(&to.high[p][n]) =
          make_uint2(pack_pair<bf16>(of[0], of[1]), pack_pair<bf16>(of[2], of[3]));
      *reinterpret_cast<uint2*>(&to.low[p][n]) = make_uint2(
          pack_pair<bf16>(low.left[0], low.left[1]), pack_pair<bf16>(low.left[2], low.left[3]));
      product += of[0] * y[u].x + of[1] * y[u].y + of[2] * y[u].z + of[3] * y[u].w;
    }
  }
  return product;
}

// What a head has of each token of a chunk; behind the last it has what changes nothing.
struct alignas(16) HeadTokens {
  float a[kRows], dt[kRows];  // sums of dt A from the chunk's beginning on, and dt
  float from_before[kRows], to_end[kRows];
};

// HopperScan: with the tables of these kernels, `tokens` in place of dt and a.
struct HopperScan : Scan<bf16> {
  HeadTokens* tokens = nullptr;  // [all chunks, heads]

  __device__ HeadTokens& of(const Chunk& k, std::int64_t head) const {
    return tokens[k.number * s.heads + head];
  }
};

// There after copies_wait() and a barrier.
__device__ inline void load_tokens(HeadTokens& to, const HopperScan& in, const Chunk& k,
                                   std::int64_t head) {
  if (const int unit = static_cast<int>(threadIdx.x);
      unit * 16 < static_cast<int>(sizeof(HeadTokens)))
    copy_16_bytes(&to.a[unit * 4], &in.of(k, head).a[unit * 4]);
}

// The tokens that a block works on.
struct OfTokens : HeadTokens {
  int first[kRows];

  __device__ void load_first(const Chunk& k) {
    for (int i = static_cast<int>(threadIdx.x); i < kRows; i += kThreads)
      first[i] = i < k.size ? static_cast<int>(k.first(i)) : kRows;
  }
  // e^(a[i] - a[j]) as far as i sees what j has written.
  __device__ float passed(int i, int j) const {
    const float factor = expf(a[i] - a[j]);
    return j <= i && j >= first[i] ? factor : 0;
  }
};

// f(number, row, column) of each of a thread's elements of a product of 16 rows and N columns, the
// first row and column given.
template <int N, class F>
__device__ void for_elements(int row, int column, const F& f) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i)
    f(i, row + lane() / 4 + i / 2 % 2 * 8, column + i / 4 * 8 + lane() % 4 * 2 + i % 2);
}

// sums += A B^T, both of whose rows are kStride apart: 16 of A, of which the fragments are given,
// and 16 of B.
template <int kStride, int kDepth>
__device__ void multiply_tile(float (&sums)[8], const std::uint32_t (&a)[kDepth / 16][4],
                              const bf16* b) {
  const bf16* const row = b + (lane() / 16 * 8 + lane() % 8) * kStride + lane() / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k) {
    std::uint32_t right[4];
    load_matrices(right, row + k * 16);
    mma<bf16>(sums, a[k], right[0], right[1]);
    mma<bf16>(sums + 4, a[k], right[2], right[3]);
  }
}
// sums += A B with 16 columns of B.
template <int kStride, int kDepth>
__device__ void multiply_columns(float (&sums)[8], const std::uint32_t (&a)[kDepth / 16][4],
                                 const bf16* b) {
  const bf16* const row = b + lane() % 16 * kStride + lane() / 16 * 8;
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k) {
    std::uint32_t right[4];
    load_transposed(right, row + k * 16 * kStride);
    mma<bf16>(sums, a[k], right[0], right[1]);
    mma<bf16>(sums + 4, a[k], right[2], right[3]);
  }
}
template <int kStride, int kDepth>
__device__ void load_rows(std::uint32_t (&a)[kDepth / 16][4], const bf16* rows) {
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k)
    load_matrices(a[k], rows + lane() % 16 * kStride + lane() / 16 * 8 + k * 16);
}

// Which 16 of a chunk's tokens a warp has: of those four apart, which share a scheduler, one has
// few tokens before its own and one has many.
__device__ inline int tile_of_warp() {
  static_assert(kWarps == 8);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  return warp < 4 ? warp : 11 - warp;
}

// The sum over the four threads that have a row's elements.
__device__ inline float over_row(float x) { return over_lanes(x, 4); }

// --- What tokens have of each head --------------------------------------------------------------

// A block has the chunk and 32 heads, one a lane, each warp 16 tokens.
constexpr int kHeads = 32, kOfWarp = kRows / kWarps;

// The sums of the warps before this one, in order, or of those behind it.
struct WarpSums {
  float of[kWarps][kHeads];
  // all: of every warp.
  __device__ float before(float mine, float& all, bool backward = false) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    of[warp][lane()] = mine;
    __syncthreads();
    float sum = 0;
    all = 0;
    for (const auto& of_warp : of) all += of_warp[lane()];
    if (backward)
      for (int w = kWarps - 1; w > warp; --w) sum += of[w][lane()];
    else
      for (int w = 0; w < warp; ++w) sum += of[w][lane()];
    return sum;
  }
};

// --- From chunk to chunk ------------------------------------------------------------------------

// A thread's elements of a state, of which a warp has 16 channels and N elements: those at `from`
// and to `to`, in f32.
template <int N>
__device__ void read_state(float (&state)[N / 2], const float* from, int channel, int element) {
  for_elements<N>(channel, element, [&](int i, int p, int n) {
    if (i % 2 != 0) return;
    const float2 two = *reinterpret_cast<const float2*>(from + p * kStates + n);
    state[i] = two.x;
    state[i + 1] = two.y;
  });
}
template <int N>
__device__ void write_state(float* to, const float (&state)[N / 2], int channel, int element) {
  for_elements<N>(channel, element, [&](int i, int p, int n) {
    if (i % 2 == 0)
      *reinterpret_cast<float2*>(to + p * kStates + n) = make_float2(state[i], state[i + 1]);
  });
}

// sums += x^T B over a chunk's tokens, for 16 channels of x and N elements of B, with the factors
// of tokens j and j + 1 that factor(j) returns in x, split.
template <int N, int kStride, class Factor>
__device__ void add_tokens(float (&sums)[N / 2], const ChannelTile& x, int channel,
                           const bf16 (&b)[kRows][kStride], int element, const Factor& factor) {
  const bf16* const x_row = &x[lane() / 16 * 8 + lane() % 8][channel + lane() / 8 % 2 * 8];
  const bf16* const b_row = &b[lane() % 16][element + lane() / 16 * 8];
#pragma unroll 2
  for (int j = 0; j < kRows; j += 16) {
    std::uint32_t pairs[4], high[4], low[4];
    load_transposed(pairs, x_row + j * kOfChannels);
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      const float2 of = factor(j + m / 2 * 8 + lane() % 4 * 2);
      const float scaled[2] = {__uint_as_float(pairs[m] << 16) * of.x,
                               __uint_as_float(pairs[m] & 0xffff0000u) * of.y};
      const Residue<2> rest(scaled);
      high[m] = pack_pair<bf16>(scaled[0], scaled[1]);
      low[m] = pack_pair<bf16>(rest.left[0], rest.left[1]);
    }
#pragma unroll
    for (int n = 0; n < N; n += 16) {
      std::uint32_t right[4];
      load_transposed(right, b_row + j * kStride + n);
      mma<bf16>(sums + n / 2, high, right[0], right[1]);
      mma<bf16>(sums + n / 2 + 4, high, right[2], right[3]);
      mma<bf16>(sums + n / 2, low, right[0], right[1]);
      mma<bf16>(sums + n / 2 + 4, low, right[2], right[3]);
    }
  }
}

// What a chunk writes into the state behind it, of its tokens j and j + 1.
__device__ inline float2 written(const HeadTokens& tokens, int j) {
  return make_float2(tokens.to_end[j] * tokens.dt[j], tokens.to_end[j + 1] * tokens.dt[j + 1]);
}

// --- Launching ----------------------------------------------------------------------------------

inline MambaShape with_chunks(MambaShape s) {
  s.chunk = kRows;
  return s;
}
// Whether the matrix units take a shape; and a problem.
inline bool fit(const MambaShape& s) {
  return s.head_dim == kChannels && s.state_dim == kStates && s.length > 32 && s.mixed() % 8 == 0;
}
inline bool fit(const Scan<bf16>& in, const bf16* y) {
  return hopper_kernels() && fit(in.s) && aligned(in.mixed, y);
}

// Memory: what its blocks have in common.
template <class Memory, class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), std::int64_t blocks, cudaStream_t stream,
            const Arguments&... arguments) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Memory)));
  kernel<<<static_cast<unsigned>(blocks), kThreads, sizeof(Memory), stream>>>(arguments...);
  check(cudaGetLastError());
}

inline void take(HopperScan& in, Tables& tables) {
  const MambaShape& s = in.s;
  in.tokens = reinterpret_cast<HeadTokens*>(tables.take(
      all_chunks(s) * s.heads * static_cast<std::int64_t>(sizeof(HeadTokens) / sizeof(float))));
  in.pairs = tables.take(pairs_of(s));
  in.states = tables.take(all_chunks(s) * s.heads * s.state());
}

// Carried: states from chunk to chunk, what comes into each being written to `states`, as Scan's. A
// chunk adds the sum over its tokens of factor rows[t]^T B[t] for each of its heads.  rows:
// [tokens] of a head's channels, `row` elements apart, and B the elements of `mixed` from `column`
// on.  The factor is to_end dt; or, in the backward, which begins with the last chunk, from_before.
struct Carried {
  const bf16* rows;
  std::int64_t row, column;
  float* states;
  bool backward = false;
};
void carry_states(const HopperScan& in, const Carried& of, const ScanEnds<float>& ends,
                  cudaStream_t stream);
// Fills the tables of `in`, as scan::find_states().
void find_states(const HopperScan& in, const ScanEnds<float>& ends, cudaStream_t stream);

// What chunk_scan.h has, by these chunks; no work where they do not fit.
std::size_t forward_work(const MambaShape& s);
std::size_t backward_work(const MambaShape& s);
void forward(bf16* y, const Scan<bf16>& of, const ScanEnds<float>& ends, void* work,
             cudaStream_t stream);
template <class G>
void backward(const ScanBackward<bf16>& of, const ScanGradients<G>& gradients, void* work,
              cudaStream_t stream);

}  // namespace mt::cuda::scan::hopper
