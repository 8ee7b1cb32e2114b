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
  // e^a_last, as far as the last token sees what was before.
  __device__ float kept(std::int64_t chunk, std::int64_t head, bool is_last) const {
    const auto behind = static_cast<int>((s.length - 1) % kRows);
    return tokens[chunk * s.heads + head].from_before[is_last ? behind : kRows - 1];
  }
};

// The tokens that a block works on.
struct OfTokens : HeadTokens {
  int first[kRows];

  // There after copies_wait() and a barrier.
  __device__ void load(const HopperScan& in, const Chunk& k, std::int64_t head) {
    if (const int unit = static_cast<int>(threadIdx.x);
        unit * 16 < static_cast<int>(sizeof(HeadTokens)))
      copy_16_bytes(&a[unit * 4], &in.of(k, head).a[unit * 4]);
  }
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

// What chunks add becomes what comes into them, from the first on, or in the backward from the
// last; for the four elements `at` of a sequence's.  Returns what goes out behind them.
__device__ inline float4 pass(float4* states, float4 state, const HopperScan& in,
                              std::int64_t of_sequence, std::int64_t at, std::int64_t sequence,
                              std::int64_t head, bool backward) {
  constexpr int kAhead = 8;  // chunks that are on their way at once
  const auto chunks = static_cast<int>(in.s.chunks());
  for (int begin = 0; begin < chunks; begin += kAhead) {
    float4 added[kAhead];
    float kept[kAhead];
    float4* place[kAhead];
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      if (begin + n >= chunks) break;
      const int of = backward ? chunks - 1 - begin - n : begin + n;
      const std::int64_t chunk = sequence * chunks + of;
      place[n] = states + chunk * of_sequence + at;
      added[n] = *place[n];
      kept[n] = in.kept(chunk, head, of == chunks - 1);
    }
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      if (begin + n >= chunks) break;
      *place[n] = state;
      state = make_float4(kept[n] * state.x + added[n].x, kept[n] * state.y + added[n].y,
                          kept[n] * state.z + added[n].z, kept[n] * state.w + added[n].w);
    }
  }
  return state;
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

// StateSums: sum over a chunk's tokens of factor rows[t]^T B[t] for each of its heads, in `sums`,
// as Scan's states.  rows: [tokens] of a head's channels, `row` elements apart, and B the elements
// of `mixed` from `column` on.  The factor is to_end dt, or in the backward from_before.
struct StateSums {
  const bf16* rows;
  std::int64_t row, column;
  float* sums;
  bool backward = false;
};
void sum_states(const HopperScan& in, const StateSums& of, cudaStream_t stream);
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
