// Columns of a state do not touch each other in the rule, nor do its rows once the rule has found
// what is written:
//
// - Forward: threads hold parts of a few columns, and go through a sequence's tokens.
// - Backward: so do some that find d and the states before chunks, and, at the same time, from the
//   last token to the first, some that find dd and the gradients of the states behind chunks,
//   which need no state.  Then a block for each chunk and key head goes over the chunk both ways
//   with parts of a few rows, and adds up what all columns have of dq^ and dk^.
//
// dg is not <dS', S'> but, as S = S' + k^ d^T and dS' = dS - b k^ dd^T, from what the next token
// has of it, or at a chunk's end from the products of all elements:
//   dg[t] = dg[t + 1] + <q^, dq^> - <k^, dS d + b S' dd>
#include <algorithm>
#include <cmath>

#include "kernels/delta_rule.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kChunk = 64;  // tokens between the states that a backward keeps

template <class T>
struct Inputs {
  const T *mixed, *projected, *dt_bias, *a_log;
  const std::int32_t* first_key;
  DeltaShape s;

  __device__ bool begins(std::int64_t sequence, std::int64_t t) const {
    return first_key != nullptr ? first_key[sequence * s.length + t] == t : t == 0;
  }
};

// Gates: what a value head has of a token.
struct Gates {
  float a, b, g, d_g;  // d_g: the derivative of g by alpha

  __device__ Gates(float beta, float alpha, float dt_bias, float a_log) {
    const float step = alpha + dt_bias, rate = -expf(a_log);
    b = 1 / (1 + expf(-beta));
    g = rate * (fmaxf(step, 0.0f) + log1pf(expf(-fabsf(step))));
    a = expf(g);
    d_g = rate / (1 + expf(-step));
  }
};

constexpr int kFour = 4;  // numbers that are read at a time

// --- Through a sequence -------------------------------------------------------------------------

constexpr int kThreads = 128, kWarps = kThreads / 32, kTile = 16;  // of a block; tokens of a tile
constexpr int kRows = 16, kColumns = 2;                            // of a thread's part

// Part: the rows and columns of a state that a thread holds.  kLanes neighbouring ones have a
// column's rows, four by turns.
template <int kLanes>
struct Part {
  static constexpr int kKeys = kLanes * kRows, kWidth = kThreads / kLanes * kColumns;

  int lane, column;  // column: the first, of the block's kWidth

  __device__ Part()
      : lane(static_cast<int>(threadIdx.x) % kLanes),
        column(static_cast<int>(threadIdx.x) / kLanes * kColumns) {}
  __device__ int row(int i) const { return (i / kFour * kLanes + lane) * kFour + i % kFour; }
};

// Stretch: where a block works.
struct Stretch {
  std::int64_t sequence, head;
  int first, columns;  // of the head's columns

  __device__ Stretch(const DeltaShape& s, int width, std::int64_t block) {
    const std::int64_t blocks = (s.value_dim + width - 1) / width;
    first = static_cast<int>(block % blocks) * width;
    columns = min(width, static_cast<int>(s.value_dim) - first);
    head = block / blocks % s.value_heads;
    sequence = block / blocks / s.value_heads;
  }
};

// Tile: of some tokens what a value head reads, and what the block's columns get.
template <int kLanes>
struct Tile {
  float q[kTile][Part<kLanes>::kKeys], k[kTile][Part<kLanes>::kKeys];
  float in[kTile][Part<kLanes>::kWidth], out[kTile][Part<kLanes>::kWidth];
  float a[kTile], b[kTile], qk[kTile];  // a: 0 where a document begins;  qk: <q^, k^>
};

// Ahead: a tile on its way from memory, in registers.
template <int kLanes, class T>
class Ahead {
 public:
  // rows: of the block's columns, of the sequence's first token, `stride` apart.
  __device__ Ahead(const Inputs<T>& in, const Stretch& at, const T* rows, std::int64_t stride,
                   bool goes_on)
      : in_(in),
        at_(at),
        rows_(rows),
        stride_(stride),
        goes_on_(goes_on),
        dt_bias_(to_float(in.dt_bias[at.head])),
        a_log_(to_float(in.a_log[at.head])) {}

  __device__ void load(std::int64_t begin) {
    const DeltaShape& s = in_.s;
    begin_ = begin;
    const std::int64_t first = at_.sequence * s.length + begin;
    const T* const keys = in_.mixed + first * s.mixed() + at_.head / s.group_heads() * s.key_dim;
#pragma unroll
    for (int p = 0; p < kTokens; ++p) {
      const int t = token(p);
#pragma unroll
      for (int j = 0; j < kOf; ++j) {
        const int i = lane() + 32 * j;
        const bool there = begin + t < s.length && i < s.key_dim;
        q_[p][j] = there ? keys[t * s.mixed() + i] : T(0.0f);
        k_[p][j] = there ? keys[t * s.mixed() + s.k_of_mixed() + i] : T(0.0f);
      }
    }
#pragma unroll
    for (int n = 0; n < kIn; ++n) {
      const int t = place(n) / kWidth, c = place(n) % kWidth;
      const bool there = begin + t < s.length && c < at_.columns;
      of_columns_[n] = there ? rows_[(begin + t) * stride_ + c] : T(0.0f);
    }
    if (const int t = static_cast<int>(threadIdx.x); t < kTile && begin + t < s.length) {
      const T* const row = in_.projected + (first + t) * s.projected();
      beta_ = row[s.beta_of_projected() + at_.head];
      alpha_ = row[s.alpha_of_projected() + at_.head];
      begins_ = in_.begins(at_.sequence, begin + t) && !(begin + t == 0 && goes_on_);
    }
  }
  __device__ void put(Tile<kLanes>& tile) const {
    const float scale = rsqrtf(static_cast<float>(in_.s.key_dim));
#pragma unroll
    for (int p = 0; p < kTokens; ++p) {
      float qq = 0, kk = 0, qk = 0;
#pragma unroll
      for (int j = 0; j < kOf; ++j) {
        const float q = to_float(q_[p][j]), k = to_float(k_[p][j]);
        qq += q * q;
        kk += k * k;
        qk += q * k;
      }
      constexpr auto kEps = static_cast<float>(kDeltaEps);
      const float of_q = scale / sqrtf(over_lanes(qq) + kEps),
                  of_k = 1 / sqrtf(over_lanes(kk) + kEps);
      qk = over_lanes(qk);
      const int t = token(p);
#pragma unroll
      for (int j = 0; j < kOf; ++j) {
        tile.q[t][lane() + 32 * j] = to_float(q_[p][j]) * of_q;
        tile.k[t][lane() + 32 * j] = to_float(k_[p][j]) * of_k;
      }
      if (lane() == 0) tile.qk[t] = qk * of_q * of_k;
    }
#pragma unroll
    for (int n = 0; n < kIn; ++n)
      tile.in[place(n) / kWidth][place(n) % kWidth] = to_float(of_columns_[n]);
    if (const int t = static_cast<int>(threadIdx.x); t < kTile && begin_ + t < in_.s.length) {
      const Gates gates(to_float(beta_), to_float(alpha_), dt_bias_, a_log_);
      tile.a[t] = begins_ ? 0.0f : gates.a;
      tile.b[t] = gates.b;
    }
  }

 private:
  static constexpr int kWidth = Part<kLanes>::kWidth, kTokens = kTile / kWarps,
                       kOf = Part<kLanes>::kKeys / 32, kIn = kTile * kWidth / kThreads;

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int token(int p) { return static_cast<int>(threadIdx.x) / 32 + p * kWarps; }
  __device__ static int place(int n) { return static_cast<int>(threadIdx.x) + n * kThreads; }

  const Inputs<T>& in_;
  const Stretch& at_;
  const T* rows_;
  std::int64_t stride_, begin_ = 0;
  bool goes_on_, begins_ = false;
  float dt_bias_, a_log_;
  T q_[kTokens][kOf], k_[kTokens][kOf], of_columns_[kIn], beta_, alpha_;
};

// The thread's rows of a row of a tile.
template <int kLanes>
__device__ void take_rows(float (&to)[kRows], const float* row, const Part<kLanes>& part) {
#pragma unroll
  for (int i = 0; i < kRows; i += kFour) {
    const float4 four = *reinterpret_cast<const float4*>(row + part.row(i));
    to[i] = four.x;
    to[i + 1] = four.y;
    to[i + 2] = four.z;
    to[i + 3] = four.w;
  }
}

// State: a thread's part.
template <int kLanes>
struct State {
  float x[kColumns][kRows] = {};

  // A column's sum of its elements times a row's; every lane of the column gets it.
  __device__ float times(int column, const float (&row)[kRows]) const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kRows; ++i) sum += x[column][i] * row[i];
    return over_lanes(sum, kLanes);
  }
  // body(element here, its place in a head's state) for all that are there.
  template <class Body>
  __device__ void for_places(const DeltaShape& s, const Part<kLanes>& part, const Stretch& at,
                             const Body& body) {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        if (part.row(i) < s.key_dim && part.column + c < at.columns)
          body(x[c][i], part.row(i) * s.value_dim + at.first + part.column + c);
  }
};

// body(a token of the tile, its column among the block's, its place in the tile) for all that are
// there.
template <int kLanes, class Body>
__device__ void for_columns(int count, const Stretch& at, const Body& body) {
  constexpr int kWidth = Part<kLanes>::kWidth;
  for (int i = static_cast<int>(threadIdx.x); i < count * kWidth; i += kThreads)
    if (i % kWidth < at.columns) body(i / kWidth, i % kWidth);
}

// What a backward keeps of a forward, or of its way back: rows [tokens, values] of d or dd, and the
// states before chunks, or the gradients of those behind them, [sequences, value_heads, chunks,
// key_dim, value_dim].
struct Kept {
  float *rows, *states;

  __device__ float* state(const DeltaShape& s, std::int64_t sequence, std::int64_t head,
                          std::int64_t chunk) const {
    const std::int64_t chunks = (s.length + kChunk - 1) / kChunk;
    return states + ((sequence * s.value_heads + head) * chunks + chunk) * s.state();
  }
};

// From the first token to the last: makes y, or, if kKeeps, what is kept.
template <bool kKeeps, int kLanes, class T>
__device__ void go_forward(Tile<kLanes>& tile, T* y, const Kept& kept, const Inputs<T>& in,
                           const DeltaStates<float>& states, std::int64_t block) {
  const DeltaShape& s = in.s;
  const Part<kLanes> part;
  const Stretch at(s, Part<kLanes>::kWidth, block);
  const std::int64_t first = at.sequence * s.length, column = at.head * s.value_dim + at.first;
  State<kLanes> state;
  float* cached = nullptr;
  bool goes_on = false;
  if (states.cache != nullptr) {
    cached = states.cache + (states.slots.of(at.sequence) * s.value_heads + at.head) * s.state();
    goes_on = !states.slots.begins(at.sequence, s.length);
  }
  Ahead<kLanes, T> ahead(in, at, in.mixed + first * s.mixed() + s.v_of_mixed() + column, s.mixed(),
                         goes_on);
  ahead.load(0);
  if (goes_on)
    state.for_places(s, part, at, [&](float& x, std::int64_t place) { x = cached[place]; });
  for (std::int64_t begin = 0; begin < s.length; begin += kTile) {
    const int count = static_cast<int>(min(std::int64_t{kTile}, s.length - begin));
    if (kKeeps && begin % kChunk == 0) {
      float* const to = kept.state(s, at.sequence, at.head, begin / kChunk);
      state.for_places(s, part, at, [&](float x, std::int64_t place) { to[place] = x; });
    }
    ahead.put(tile);
    if (begin + kTile < s.length) ahead.load(begin + kTile);
    __syncthreads();
#pragma unroll 2
    for (int t = 0; t < count; ++t) {
      const float a = tile.a[t], b = tile.b[t], qk = tile.qk[t];
      float q[kRows], k[kRows], d[kColumns];
      if (!kKeeps) take_rows(q, tile.q[t], part);
      take_rows(k, tile.k[t], part);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        d[c] = b * (tile.in[t][part.column + c] - a * state.times(c, k));
        const float out = kKeeps ? d[c] : a * state.times(c, q) + d[c] * qk;
        if (part.lane == 0) tile.out[t][part.column + c] = out;
      }
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
#pragma unroll
        for (int i = 0; i < kRows; ++i) state.x[c][i] = state.x[c][i] * a + k[i] * d[c];
    }
    __syncthreads();
    for_columns<kLanes>(count, at, [&](int t, int c) {
      const std::int64_t place = (first + begin + t) * s.values() + column + c;
      if constexpr (kKeeps)
        kept.rows[place] = tile.out[t][c];
      else
        y[place] = static_cast<T>(tile.out[t][c]);
    });
  }
  if (cached != nullptr)
    state.for_places(s, part, at, [&](float x, std::int64_t place) { cached[place] = x; });
}

// From the last token to the first: makes dd and dv, and keeps the gradients of states.
template <int kLanes, class T>
__device__ void go_back(Tile<kLanes>& tile, T* d_mixed, const T* dy, const Kept& kept,
                        const Inputs<T>& in, std::int64_t block) {
  const DeltaShape& s = in.s;
  const Part<kLanes> part;
  const Stretch at(s, Part<kLanes>::kWidth, block);
  const std::int64_t first = at.sequence * s.length, column = at.head * s.value_dim + at.first;
  State<kLanes> d_state;
  Ahead<kLanes, T> ahead(in, at, dy + first * s.values() + column, s.values(), false);
  const std::int64_t last = (s.length - 1) / kTile * kTile;
  ahead.load(last);
  for (std::int64_t begin = last; begin >= 0; begin -= kTile) {
    const int count = static_cast<int>(min(std::int64_t{kTile}, s.length - begin));
    if (const std::int64_t end = begin + count; end % kChunk == 0 || end == s.length) {
      float* const to = kept.state(s, at.sequence, at.head, begin / kChunk);
      d_state.for_places(s, part, at, [&](float x, std::int64_t place) { to[place] = x; });
    }
    ahead.put(tile);
    if (begin > 0) ahead.load(begin - kTile);
    __syncthreads();
#pragma unroll 2
    for (int t = count - 1; t >= 0; --t) {
      const float a = tile.a[t], b = tile.b[t], qk = tile.qk[t];
      float q[kRows], k[kRows];
      take_rows(q, tile.q[t], part);
      take_rows(k, tile.k[t], part);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const float of_y = tile.in[t][part.column + c], dd = d_state.times(c, k) + of_y * qk,
                    of_v = b * dd;
        if (part.lane == 0) tile.out[t][part.column + c] = dd;
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          float& x = d_state.x[c][i];
          x = a * (x + q[i] * of_y - k[i] * of_v);
        }
      }
    }
    __syncthreads();
    for_columns<kLanes>(count, at, [&](int t, int c) {
      const std::int64_t token = first + begin + t;
      kept.rows[token * s.values() + column + c] = tile.out[t][c];
      d_mixed[token * s.mixed() + s.v_of_mixed() + column + c] =
          static_cast<T>(tile.b[t] * tile.out[t][c]);
    });
    __syncthreads();
  }
}

template <int kLanes, class T>
__global__ __launch_bounds__(kThreads, 3) void forward_kernel(T* y, const Inputs<T> in,
                                                              const DeltaStates<float> states) {
  __shared__ __align__(16) Tile<kLanes> tile;
  go_forward<false>(tile, y, {}, in, states, blockIdx.x);
}

// The first half of the blocks go forward, the others back.
template <int kLanes, class T>
__global__ __launch_bounds__(kThreads, 3) void both_ways_kernel(T* d_mixed, const T* dy,
                                                                const Kept forth, const Kept back,
                                                                const Inputs<T> in) {
  __shared__ __align__(16) Tile<kLanes> tile;
  if (const std::int64_t half = gridDim.x / 2; blockIdx.x < half)
    go_forward<true>(tile, static_cast<T*>(nullptr), forth, in, {}, blockIdx.x);
  else
    go_back(tile, d_mixed, dy, back, in, blockIdx.x - half);
}

// --- Over a chunk -------------------------------------------------------------------------------

constexpr int kChunkThreads = 256, kChunkWarps = kChunkThreads / 32;
constexpr int kSome = kChunkWarps;                 // tokens of a tile: each warp normalises one's
constexpr int kChunkRows = 4, kChunkColumns = 16;  // of a thread's part

// ChunkWork: what lies in the work of a backward.
struct ChunkWork {
  Kept forth, back;
  float* d_keys;  // [tokens, key_heads, 2, key_dim]: dq^ and dk^
  float* sums;    // [chunks of all sequences, 2, value_heads]: of d_alpha and of dg g

  std::int64_t size = 0;

  // In memory that begins at `at`, or, for its size alone, null.
  ChunkWork(float* at, const DeltaShape& s) {
    const std::int64_t chunks = s.sequences * ceil_div(s.length, kChunk),
                       rows = s.tokens() * s.values(), states = chunks * s.value_heads * s.state();
    const auto take = [&](std::int64_t count) {
      float* const from = at == nullptr ? nullptr : at + size;
      size += count;
      return from;
    };
    forth = {.rows = take(rows), .states = take(states)};
    back = {.rows = take(rows), .states = take(states)};
    d_keys = take(s.tokens() * 2 * s.keys());
    sums = take(chunks * 2 * s.value_heads);
  }
};

// ChunkTile: of some tokens what the rows of a state read; zeros where the head has fewer.
template <int kLanes>
struct ChunkTile {
  static constexpr int kKeys = kMostDeltaDim, kValues = kLanes * kChunkColumns;

  float q[kSome][kKeys], k[kSome][kKeys];
  float d[kSome][kValues], dd[kSome][kValues], dy[kSome][kValues];
};

// ChunkGates: of a value head's tokens.
struct ChunkGates {
  float a[kChunk], b[kChunk], g[kChunk], d_g[kChunk];  // a: 0 where a document begins
  float b_db[kChunk];                                  // <dd, d>
  float dg[kChunk], of_warps[kChunk][kChunkWarps];     // of_warps: what is added to the next one's
  float end[kChunkWarps];                              // what the last token has of the next chunk
  float sums[2][kChunk / 32];                          // of d_alpha and of dg g
};

// Rows: kChunkRows rows of a state, of which a thread has kChunkColumns columns.
template <int kLanes>
struct Rows {
  static constexpr int kOfBlock = kChunkThreads / kLanes * kChunkRows;

  float x[kChunkRows][kChunkColumns];
  int lane, row;  // row: the first

  __device__ explicit Rows(int first)
      : lane(static_cast<int>(threadIdx.x) % kLanes),
        row(first + static_cast<int>(threadIdx.x) / kLanes * kChunkRows) {}
  __device__ int column(int c) const { return (c / kFour * kLanes + lane) * kFour + c % kFour; }

  template <class Body>
  __device__ void for_places(const DeltaShape& s, const Body& body) {
#pragma unroll
    for (int r = 0; r < kChunkRows; ++r)
#pragma unroll
      for (int c = 0; c < kChunkColumns; ++c) {
        const bool there = row + r < s.key_dim && column(c) < s.value_dim;
        body(x[r][c], there, (row + r) * s.value_dim + column(c));
      }
  }
  // body(four columns' first, the fours of three vectors that lie there).
  template <class Body>
  __device__ void for_fours(const float* u, const float* v, const float* w,
                            const Body& body) const {
#pragma unroll
    for (int c = 0; c < kChunkColumns; c += kFour) {
      const float4 a = *reinterpret_cast<const float4*>(u + column(c)),
                   b = *reinterpret_cast<const float4*>(v + column(c)),
                   d = *reinterpret_cast<const float4*>(w + column(c));
      const float of_u[] = {a.x, a.y, a.z, a.w}, of_v[] = {b.x, b.y, b.z, b.w},
                  of_w[] = {d.x, d.y, d.z, d.w};
      body(c, of_u, of_v, of_w);
    }
  }
  // This thread's numbers of a row of a tile.
  __device__ void take(float (&to)[kChunkRows], const float* from) const {
    const float4 four = row < kMostDeltaDim ? *reinterpret_cast<const float4*>(from + row)
                                            : make_float4(0, 0, 0, 0);
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
  }
};

// The sum of x[lane % kCount] over kLanes neighbouring lanes: half of what lanes have goes to
// others, and again.  x is overwritten.
template <int kLanes, int kCount>
__device__ float sums_over_lanes(float (&x)[kCount], int lane) {
  static_assert(kCount <= kLanes);
#pragma unroll
  for (int half = kCount / 2; half > 0; half /= 2)
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const bool upper = (lane & half) != 0;
      const float own = upper ? x[i + half] : x[i], other = upper ? x[i] : x[i + half];
      x[i] = own + __shfl_xor_sync(0xffffffff, other, half);
    }
#pragma unroll
  for (int distance = kCount; distance < kLanes; distance *= 2)
    x[0] += __shfl_xor_sync(0xffffffff, x[0], distance);
  return x[0];
}

template <class T>
struct Chunk {
  Inputs<T> in;
  const T* dy;
  ChunkWork work;
  std::int64_t sequence, begin, key_head, head = 0;
  int count, index;  // its tokens; its number in the sequence

  __device__ std::int64_t token(int t) const { return sequence * in.s.length + begin + t; }
  // dq^ or dk^ of a token.
  __device__ float* d_keys(int t, int which) const {
    const DeltaShape& s = in.s;
    return work.d_keys + ((token(t) * s.key_heads + key_head) * 2 + which) * s.key_dim;
  }
  __device__ const T* keys(int t, int which) const {
    return in.mixed + token(t) * in.s.mixed() + key_head * in.s.key_dim +
           (which == 0 ? 0 : in.s.k_of_mixed());
  }

  // Tokens first to first + some.
  template <int kLanes>
  __device__ void fill(ChunkTile<kLanes>& tile, int first, int some) const {
    const DeltaShape& s = in.s;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    constexpr int kOf = ChunkTile<kLanes>::kKeys / 32, kValues = ChunkTile<kLanes>::kValues,
                  kSteps = kSome * kValues / kChunkThreads;
    float q[kOf], k[kOf], columns[3][kSteps], qq = 0, kk = 0;
#pragma unroll
    for (int j = 0; j < kOf; ++j) {
      const int i = lane + 32 * j;
      const bool there = warp < some && i < s.key_dim;
      q[j] = there ? to_float(keys(first + warp, 0)[i]) : 0.0f;
      k[j] = there ? to_float(keys(first + warp, 1)[i]) : 0.0f;
      qq += q[j] * q[j];
      kk += k[j] * k[j];
    }
#pragma unroll
    for (int n = 0; n < kSteps; ++n) {
      const int i = static_cast<int>(threadIdx.x) + n * kChunkThreads, t = i / kValues,
                c = i % kValues;
      const bool there = t < some && c < s.value_dim;
      const std::int64_t place = token(first + t) * s.values() + head * s.value_dim + c;
      columns[0][n] = there ? work.forth.rows[place] : 0.0f;
      columns[1][n] = there ? work.back.rows[place] : 0.0f;
      columns[2][n] = there ? to_float(dy[place]) : 0.0f;
    }
    constexpr auto kEps = static_cast<float>(kDeltaEps);
    const float of_q = rsqrtf(static_cast<float>(s.key_dim)) / sqrtf(over_lanes(qq) + kEps),
                of_k = 1 / sqrtf(over_lanes(kk) + kEps);
    __syncthreads();  // what was there has been read
#pragma unroll
    for (int j = 0; j < kOf; ++j) {
      tile.q[warp][lane + 32 * j] = q[j] * of_q;
      tile.k[warp][lane + 32 * j] = k[j] * of_k;
    }
#pragma unroll
    for (int n = 0; n < kSteps; ++n) {
      const int i = static_cast<int>(threadIdx.x) + n * kChunkThreads, t = i / kValues,
                c = i % kValues;
      tile.d[t][c] = columns[0][n];
      tile.dd[t][c] = columns[1][n];
      tile.dy[t][c] = columns[2][n];
    }
    __syncthreads();
  }

  __device__ void take_gates(ChunkGates& gates) const {
    const DeltaShape& s = in.s;
    const float dt_bias = to_float(in.dt_bias[head]), a_log = to_float(in.a_log[head]);
    if (const int t = static_cast<int>(threadIdx.x); t < count) {
      const T* const row = in.projected + token(t) * s.projected();
      const Gates of(to_float(row[s.beta_of_projected() + head]),
                     to_float(row[s.alpha_of_projected() + head]), dt_bias, a_log);
      gates.a[t] = in.begins(sequence, begin + t) ? 0.0f : of.a;
      gates.b[t] = of.b;
      gates.g[t] = of.g;
      gates.d_g[t] = of.d_g;
    }
    for (int i = static_cast<int>(threadIdx.x); i < kChunk * kChunkWarps; i += kChunkThreads)
      gates.of_warps[i / kChunkWarps][i % kChunkWarps] = 0;
    if (threadIdx.x < kChunkWarps) gates.end[threadIdx.x] = 0;
  }

  // A warp's sum of what its threads add to a token's dg.
  __device__ static void add(float& to, float x) {
    x = over_lanes(x);
    if (threadIdx.x % 32 == 0) to += x;
  }

  // The rows' parts of dq^ and dk^, and of dg, of a head that is the key head's first or another.
  template <int kLanes>
  __device__ void go_forward(Rows<kLanes>& state, ChunkTile<kLanes>& tile, ChunkGates& gates,
                             bool first_head) const {
    for (int first = 0; first < count; first += kSome) {
      const int some = min(kSome, count - first);
      fill(tile, first, some);
      for (int i = 0; i < some; ++i) {
        const int t = first + i;
        const float a = gates.a[t], b = gates.b[t];
        float q[kChunkRows], k[kChunkRows], found[2 * kChunkRows] = {};  // dq^ and dk^
        state.take(q, tile.q[i]);
        state.take(k, tile.k[i]);
        state.for_fours(
            tile.d[i], tile.dd[i], tile.dy[i],
            [&](int c, const float(&d)[kFour], const float(&dd)[kFour], const float(&of_y)[kFour]) {
#pragma unroll
              for (int r = 0; r < kChunkRows; ++r)
#pragma unroll
                for (int e = 0; e < kFour; ++e) {
                  float& x = state.x[r][c + e];
                  x *= a;
                  found[kChunkRows + r] -= x * dd[e];
                  x += k[r] * d[e];
                  found[r] += x * of_y[e];
                }
            });
        float along = 0;
#pragma unroll
        for (int r = 0; r < kChunkRows; ++r) {
          found[kChunkRows + r] *= b;
          along += q[r] * found[r] + k[r] * found[kChunkRows + r];
        }
        add(gates.of_warps[t][threadIdx.x / 32], along);
        const float own = sums_over_lanes<kLanes>(found, state.lane);
        const int row = state.row + state.lane % kChunkRows;
        if (state.lane < 2 * kChunkRows && row < in.s.key_dim) {
          float& to = d_keys(t, state.lane / kChunkRows)[row];
          to = first_head ? own : to + own;
        }
      }
    }
  }

  template <int kLanes>
  __device__ void go_back(Rows<kLanes>& d_state, ChunkTile<kLanes>& tile, ChunkGates& gates) const {
    for (int first = (count - 1) / kSome * kSome; first >= 0; first -= kSome) {
      const int some = min(kSome, count - first);
      fill(tile, first, some);
      for (int i = some - 1; i >= 0; --i) {
        const int t = first + i;
        const float a = gates.a[t], b = gates.b[t];
        float q[kChunkRows], k[kChunkRows], dk[kChunkRows] = {};
        d_state.take(q, tile.q[i]);
        d_state.take(k, tile.k[i]);
        d_state.for_fours(
            tile.d[i], tile.dd[i], tile.dy[i],
            [&](int c, const float(&d)[kFour], const float(&dd)[kFour], const float(&of_y)[kFour]) {
#pragma unroll
              for (int e = 0; e < kFour; ++e) {
                const float of_v = b * dd[e];
#pragma unroll
                for (int r = 0; r < kChunkRows; ++r) {
                  float& x = d_state.x[r][c + e];
                  x += q[r] * of_y[e];
                  dk[r] += x * d[e];
                  x = a * (x - k[r] * of_v);
                }
              }
            });
        float along = 0;
#pragma unroll
        for (int r = 0; r < kChunkRows; ++r) along -= k[r] * dk[r];
        add(gates.of_warps[t][threadIdx.x / 32], along);
        const float own = sums_over_lanes<kLanes>(dk, d_state.lane);
        // The same thread's as on the way forward.
        const int row = d_state.row + d_state.lane % kChunkRows;
        if (d_state.lane / kChunkRows == 1 && row < in.s.key_dim) d_keys(t, 1)[row] += own;
      }
    }
  }

  // Warps find <dd, d> of tokens.
  __device__ void multiply_written(ChunkGates& gates) const {
    const int width = static_cast<int>(in.s.value_dim);
    for (int t = static_cast<int>(threadIdx.x) / 32; t < count; t += kChunkWarps) {
      const std::int64_t place = token(t) * in.s.values() + head * width;
      float sum = 0;
      for (int c = static_cast<int>(threadIdx.x) % 32; c < width; c += 32)
        sum += work.forth.rows[place + c] * work.back.rows[place + c];
      sum = over_lanes(sum);
      if (threadIdx.x % 32 == 0) gates.b_db[t] = sum;
    }
  }

  // From what was added up to the gradients of the gates.
  __device__ void finish_gates(T* d_projected, ChunkGates& gates) const {
    static_assert(kChunk <= kChunkThreads && kChunk % 32 == 0);
    const DeltaShape& s = in.s;
    const int t = static_cast<int>(threadIdx.x);
    if (t < count) {
      float sum = 0;
      for (const float x : gates.of_warps[t]) sum += x;
      gates.dg[t] = sum;
    }
    __syncthreads();
    if (t == 0) {
      float dg = 0;
      for (const float x : gates.end) dg += x;
      for (int i = count - 1; i >= 0; --i)
        gates.dg[i] = dg = gates.a[i] == 0 ? 0 : dg + gates.dg[i];
    }
    __syncthreads();
    if (t < kChunk) {
      const float dg = t < count ? gates.dg[t] : 0.0f, d_alpha = t < count ? dg * gates.d_g[t] : 0,
                  of_a_log = t < count ? dg * gates.g[t] : 0;
      if (t < count) {
        T* const row = d_projected + token(t) * s.projected();
        row[s.beta_of_projected() + head] = static_cast<T>(gates.b_db[t] * (1 - gates.b[t]));
        row[s.alpha_of_projected() + head] = static_cast<T>(d_alpha);
      }
      gates.sums[0][t / 32] = over_lanes(d_alpha);
      gates.sums[1][t / 32] = over_lanes(of_a_log);
    }
    __syncthreads();
    if (t < 2) {
      const std::int64_t chunks = (s.length + kChunk - 1) / kChunk;
      float sum = 0;
      for (const float x : gates.sums[t]) sum += x;
      work.sums[((sequence * chunks + index) * 2 + t) * s.value_heads + head] = sum;
    }
  }

  // Warps go back through the norm of queries and keys.
  __device__ void go_back_through_norms(T* d_mixed) const {
    const DeltaShape& s = in.s;
    const int size = static_cast<int>(s.key_dim), lane = static_cast<int>(threadIdx.x) % 32;
    for (int row = static_cast<int>(threadIdx.x) / 32; row < 2 * count; row += kChunkWarps) {
      const int t = row / 2, which = row % 2;
      const T* const x = keys(t, which);
      const float* const d = d_keys(t, which);
      float squares = 0, along = 0;
      for (int i = lane; i < size; i += 32) {
        const float of_x = to_float(x[i]);
        squares += of_x * of_x;
        along += of_x * d[i];
      }
      const float r = 1 / sqrtf(over_lanes(squares) + static_cast<float>(kDeltaEps)),
                  scale = which == 0 ? rsqrtf(static_cast<float>(size)) : 1.0f;
      along = over_lanes(along) * r * r;
      T* const to = d_mixed + (x - in.mixed);
      for (int i = lane; i < size; i += 32)
        to[i] = static_cast<T>(r * scale * (d[i] - to_float(x[i]) * along));
    }
  }
};

// A block for each sequence, chunk and key head.
template <int kLanes, class T>
__global__ __launch_bounds__(kChunkThreads, 2) void chunk_kernel(T* d_mixed, T* d_projected,
                                                                 const T* dy, const ChunkWork work,
                                                                 const Inputs<T> in) {
  __shared__ __align__(16) ChunkTile<kLanes> tile;
  __shared__ ChunkGates gates;
  const DeltaShape& s = in.s;
  const std::int64_t chunks = (s.length + kChunk - 1) / kChunk, number = blockIdx.x / s.key_heads,
                     begin = number % chunks * kChunk;
  Chunk<T> chunk{.in = in,
                 .dy = dy,
                 .work = work,
                 .sequence = number / chunks,
                 .begin = begin,
                 .key_head = blockIdx.x % s.key_heads,
                 .count = static_cast<int>(min(std::int64_t{kChunk}, s.length - begin)),
                 .index = static_cast<int>(number % chunks)};
  for (int h = 0; h < s.group_heads(); ++h) {
    chunk.head = chunk.key_head * s.group_heads() + h;
    __syncthreads();  // the gates before have been read
    chunk.take_gates(gates);
    chunk.multiply_written(gates);
    for (int first = 0; first < s.key_dim; first += Rows<kLanes>::kOfBlock) {
      Rows<kLanes> rows(first);
      const float *const before = work.forth.state(s, chunk.sequence, chunk.head, chunk.index),
                         *const behind =
                             work.back.state(s, chunk.sequence, chunk.head, chunk.index);
      rows.for_places(
          s, [&](float& x, bool there, std::int64_t place) { x = there ? before[place] : 0.0f; });
      chunk.go_forward(rows, tile, gates, h == 0);
      float sum = 0;
      rows.for_places(s, [&](float& x, bool there, std::int64_t place) {
        const float dx = there ? behind[place] : 0.0f;
        sum += x * dx;
        x = dx;
      });
      Chunk<T>::add(gates.end[threadIdx.x / 32], sum);
      chunk.go_back(rows, tile, gates);
    }
    __syncthreads();
    chunk.finish_gates(d_projected, gates);
  }
  __syncthreads();
  chunk.go_back_through_norms(d_mixed);
}

// body.operator()<kLanes>() for as many lanes, in whose parts of `of_lane` numbers `size` lie.
template <class Body>
void with_lanes(std::int64_t size, const Body& body) {
  constexpr int kOfLane = 16;
  static_assert(kOfLane == kRows && kOfLane == kChunkColumns && kMostDeltaDim == 16 * kOfLane);
  if (size <= 8 * kOfLane)
    body.template operator()<8>();
  else
    body.template operator()<16>();
}

template <int kLanes>
unsigned blocks_through(const DeltaShape& s) {
  return static_cast<unsigned>(s.sequences * s.value_heads *
                               ceil_div(s.value_dim, Part<kLanes>::kWidth));
}

}  // namespace

template <class T>
void delta_rule_forward(T* y, const T* mixed, const T* projected, const T* dt_bias, const T* a_log,
                        const std::int32_t* first_key, const DeltaStates<float>& states,
                        const DeltaShape& s, cudaStream_t stream) {
  if (s.tokens() == 0) return;
  const Inputs<T> in{mixed, projected, dt_bias, a_log, first_key, s};
  with_lanes(s.key_dim, [&]<int kLanes>() {
    forward_kernel<kLanes, T><<<blocks_through<kLanes>(s), kThreads, 0, stream>>>(y, in, states);
  });
  check(cudaGetLastError());
}

std::size_t delta_rule_backward_work(const DeltaShape& s) {
  return static_cast<std::size_t>(ChunkWork(nullptr, s).size) * sizeof(float);
}

template <class T, class G>
void delta_rule_backward(T* d_mixed, T* d_projected, G* d_dt_bias, G* d_a_log, const T* dy,
                         const T* mixed, const T* projected, const T* dt_bias, const T* a_log,
                         const std::int32_t* first_key, const DeltaShape& s, void* work,
                         cudaStream_t stream) {
  if (s.tokens() == 0) return;
  const Inputs<T> in{mixed, projected, dt_bias, a_log, first_key, s};
  const ChunkWork there(static_cast<float*>(work), s);
  with_lanes(s.key_dim, [&]<int kLanes>() {
    both_ways_kernel<kLanes, T><<<2 * blocks_through<kLanes>(s), kThreads, 0, stream>>>(
        d_mixed, dy, there.forth, there.back, in);
  });
  const std::int64_t chunks = s.sequences * ceil_div(s.length, kChunk);
  const auto blocks = static_cast<unsigned>(chunks * s.key_heads);
  with_lanes(s.value_dim, [&]<int kLanes>() {
    chunk_kernel<kLanes, T>
        <<<blocks, kChunkThreads, 0, stream>>>(d_mixed, d_projected, dy, there, in);
  });
  check(cudaGetLastError());
  add_parts<G>(d_dt_bias, d_a_log, there.sums, chunks, s.value_heads, stream);
}

#define INSTANTIATE_BACKWARD(T, G)                                                           \
  template void delta_rule_backward(T*, T*, G*, G*, const T*, const T*, const T*, const T*,  \
                                    const T*, const std::int32_t*, const DeltaShape&, void*, \
                                    cudaStream_t);
#define INSTANTIATE(T)                                                             \
  template void delta_rule_forward(T*, const T*, const T*, const T*, const T*,     \
                                   const std::int32_t*, const DeltaStates<float>&, \
                                   const DeltaShape&, cudaStream_t);               \
  INSTANTIATE_BACKWARD(T, float)
INSTANTIATE(float)
INSTANTIATE(bf16)
INSTANTIATE(fp16)
INSTANTIATE_BACKWARD(bf16, bf16)
#undef INSTANTIATE
#undef INSTANTIATE_BACKWARD

}  // namespace mt::cuda
