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

  template <class T>
  __device__ Gates(const Inputs<T>& in, std::int64_t token, std::int64_t head) {
    const T* const row = in.projected + token * in.s.projected();
    const float step = to_float(row[in.s.alpha_of_projected() + head]) + to_float(in.dt_bias[head]),
                rate = -expf(to_float(in.a_log[head]));
    b = 1 / (1 + expf(-to_float(row[in.s.beta_of_projected() + head])));
    g = rate * (fmaxf(step, 0.0f) + log1pf(expf(-fabsf(step))));
    a = expf(g);
    d_g = rate / (1 + expf(-step));
  }
};

// A warp makes `to` of x, both [size], normalised and times `scale`; zeros up to `padded`.
template <class T>
__device__ void normalize(float* to, const T* x, int size, int padded, float scale) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float squares = 0;
  for (int i = lane; i < padded; i += 32) {
    to[i] = i < size ? to_float(x[i]) : 0.0f;
    squares += to[i] * to[i];
  }
  const float r = scale / sqrtf(over_lanes(squares) + static_cast<float>(kDeltaEps));
  for (int i = lane; i < size; i += 32) to[i] *= r;
}

// --- Through a sequence -------------------------------------------------------------------------

constexpr int kThreads = 128, kTile = 16;           // threads of a block, tokens of a tile
constexpr int kRows = 16, kColumns = 2, kFour = 4;  // of a thread's part; rows lie in fours

// Part: the rows and columns of a state that a thread holds.  `lanes` neighbouring ones, a power of
// two, have a column's rows, four by turns.
struct Part {
  int lanes, lane, column;  // column: the first, of the block's

  __device__ explicit Part(int lanes)
      : lanes(lanes),
        lane(static_cast<int>(threadIdx.x) % lanes),
        column(static_cast<int>(threadIdx.x) / lanes * kColumns) {}
  __device__ int row(int i) const { return (i / kFour * lanes + lane) * kFour + i % kFour; }
};
int lanes_for(std::int64_t rows) {
  int lanes = 1;
  while (lanes * kRows < rows) lanes *= 2;
  return lanes;
}
constexpr int block_columns(int lanes) { return kThreads / lanes * kColumns; }

// Tile: of some tokens what a value head reads, in shared memory.
struct Tile {
  float *q, *k;     // [kTile, keys]
  float *in, *out;  // [kTile, columns] of the block
  float *a, *b;     // [kTile]; a: 0 where a document begins
  int keys, columns;

  __device__ Tile(float* at, int lanes) : keys(lanes * kRows), columns(block_columns(lanes)) {
    q = at;
    k = q + kTile * keys;
    in = k + kTile * keys;
    out = in + kTile * columns;
    a = out + kTile * columns;
    b = a + kTile;
  }
};
std::size_t tile_bytes(int lanes) {
  return sizeof(float) * kTile *
         static_cast<std::size_t>(2 * lanes * kRows + 2 * block_columns(lanes) + 2);
}

// Stretch: where a block works.
struct Stretch {
  std::int64_t sequence, head;
  int first, columns;  // of the head's columns

  __device__ Stretch(const DeltaShape& s, int lanes, std::int64_t block) {
    const int of_block = block_columns(lanes);
    const std::int64_t blocks = (s.value_dim + of_block - 1) / of_block;
    first = static_cast<int>(block % blocks) * of_block;
    columns = min(of_block, static_cast<int>(s.value_dim) - first);
    head = block / blocks % s.value_heads;
    sequence = block / blocks / s.value_heads;
  }
};

// Fills a tile with tokens from `begin` on; rows: of the block's columns, of the sequence's first
// token, `stride` apart.
template <class T>
__device__ void fill(const Tile& tile, const Inputs<T>& in, const Stretch& at, const T* rows,
                     std::int64_t stride, std::int64_t begin, int count, bool goes_on) {
  const DeltaShape& s = in.s;
  const int size = static_cast<int>(s.key_dim);
  const std::int64_t first = at.sequence * s.length + begin;
  const std::int64_t key_column = at.head / s.group_heads() * s.key_dim;
  for (int row = static_cast<int>(threadIdx.x) / 32; row < 2 * count; row += kThreads / 32) {
    const bool of_key = row >= count;
    const int i = of_key ? row - count : row;
    const T* const x =
        in.mixed + (first + i) * s.mixed() + key_column + (of_key ? s.k_of_mixed() : 0);
    normalize((of_key ? tile.k : tile.q) + i * tile.keys, x, size, tile.keys,
              of_key ? 1.0f : rsqrtf(static_cast<float>(size)));
  }
  for (int i = static_cast<int>(threadIdx.x); i < count * tile.columns; i += kThreads) {
    const int t = i / tile.columns, c = i % tile.columns;
    tile.in[i] = c < at.columns ? to_float(rows[(begin + t) * stride + c]) : 0.0f;
  }
  if (const int t = static_cast<int>(threadIdx.x); t < count) {
    const Gates gates(in, first + t, at.head);
    const bool begins = in.begins(at.sequence, begin + t) && !(begin + t == 0 && goes_on);
    tile.a[t] = begins ? 0.0f : gates.a;
    tile.b[t] = gates.b;
  }
}

// State: a thread's part.
struct State {
  float x[kColumns][kRows] = {};

  __device__ void scale(float a) {
#pragma unroll
    for (auto& column : x)
#pragma unroll
      for (float& one : column) one *= a;
  }
  // to: of each column, the sum of its elements times a row's.
  __device__ void times(float (&to)[kColumns], const float* row, const Part& part) const {
#pragma unroll
    for (float& sum : to) sum = 0;
#pragma unroll
    for (int i = 0; i < kRows; i += kFour) {
      const float4 four = *reinterpret_cast<const float4*>(row + part.row(i));
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        to[c] +=
            x[c][i] * four.x + x[c][i + 1] * four.y + x[c][i + 2] * four.z + x[c][i + 3] * four.w;
    }
#pragma unroll
    for (float& sum : to) sum = over_lanes(sum, part.lanes);
  }
  // Adds a row times each column's factor.
  __device__ void add(const float* row, const float (&factor)[kColumns], const Part& part) {
#pragma unroll
    for (int i = 0; i < kRows; i += kFour) {
      const float4 four = *reinterpret_cast<const float4*>(row + part.row(i));
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        x[c][i] += four.x * factor[c];
        x[c][i + 1] += four.y * factor[c];
        x[c][i + 2] += four.z * factor[c];
        x[c][i + 3] += four.w * factor[c];
      }
    }
  }
  // body(element here, its place in a head's state) for all that are there.
  template <class Body>
  __device__ void for_places(const DeltaShape& s, const Part& part, const Stretch& at,
                             const Body& body) {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        if (part.row(i) < s.key_dim && part.column + c < at.columns)
          body(x[c][i], part.row(i) * s.value_dim + at.first + part.column + c);
  }
};

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

// From the first token to the last: makes y, or, if that is null, what is kept.
template <class T>
__device__ void go_forward(float* shared, T* y, const Kept& kept, const Inputs<T>& in,
                           const DeltaStates<float>& states, int lanes, std::int64_t block) {
  const DeltaShape& s = in.s;
  const Part part(lanes);
  const Tile tile(shared, lanes);
  const Stretch at(s, lanes, block);
  const std::int64_t first = at.sequence * s.length, column = at.head * s.value_dim + at.first;
  State state;
  float* cached = nullptr;
  bool goes_on = false;
  if (states.cache != nullptr) {
    cached = states.cache + (states.slots.of(at.sequence) * s.value_heads + at.head) * s.state();
    goes_on = !states.slots.begins(at.sequence, s.length);
  }
  if (goes_on)
    state.for_places(s, part, at, [&](float& x, std::int64_t place) { x = cached[place]; });
  const T* const values = in.mixed + first * s.mixed() + s.v_of_mixed() + column;
  for (std::int64_t begin = 0; begin < s.length; begin += kTile) {
    const int count = static_cast<int>(min(std::int64_t{kTile}, s.length - begin));
    if (y == nullptr && begin % kChunk == 0) {
      float* const to = kept.state(s, at.sequence, at.head, begin / kChunk);
      state.for_places(s, part, at, [&](float x, std::int64_t place) { to[place] = x; });
    }
    fill(tile, in, at, values, s.mixed(), begin, count, goes_on);
    __syncthreads();
    for (int t = 0; t < count; ++t) {
      const float *const q = tile.q + t * tile.keys, *const k = tile.k + t * tile.keys;
      float d[kColumns], out[kColumns];
      state.scale(tile.a[t]);
      state.times(d, k, part);
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        d[c] = tile.b[t] * (tile.in[t * tile.columns + part.column + c] - d[c]);
      state.add(k, d, part);
      if (y != nullptr) state.times(out, q, part);
      if (part.lane == 0)
#pragma unroll
        for (int c = 0; c < kColumns; ++c)
          tile.out[t * tile.columns + part.column + c] = y != nullptr ? out[c] : d[c];
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < count * tile.columns; i += kThreads) {
      const int t = i / tile.columns, c = i % tile.columns;
      if (c >= at.columns) continue;
      const std::int64_t place = (first + begin + t) * s.values() + column + c;
      if (y != nullptr)
        y[place] = static_cast<T>(tile.out[i]);
      else
        kept.rows[place] = tile.out[i];
    }
  }
  if (cached != nullptr)
    state.for_places(s, part, at, [&](float x, std::int64_t place) { cached[place] = x; });
}

// From the last token to the first: makes dd and dv, and keeps the gradients of states.
template <class T>
__device__ void go_back(float* shared, T* d_mixed, const T* dy, const Kept& kept,
                        const Inputs<T>& in, int lanes, std::int64_t block) {
  const DeltaShape& s = in.s;
  const Part part(lanes);
  const Tile tile(shared, lanes);
  const Stretch at(s, lanes, block);
  const std::int64_t first = at.sequence * s.length, column = at.head * s.value_dim + at.first;
  State d_state;
  const T* const rows = dy + first * s.values() + column;
  for (std::int64_t begin = (s.length - 1) / kTile * kTile; begin >= 0; begin -= kTile) {
    const int count = static_cast<int>(min(std::int64_t{kTile}, s.length - begin));
    if (const std::int64_t end = begin + count; end % kChunk == 0 || end == s.length) {
      float* const to = kept.state(s, at.sequence, at.head, begin / kChunk);
      d_state.for_places(s, part, at, [&](float x, std::int64_t place) { to[place] = x; });
    }
    fill(tile, in, at, rows, s.values(), begin, count, false);
    __syncthreads();
    for (int t = count; t-- > 0;) {
      const float *const q = tile.q + t * tile.keys, *const k = tile.k + t * tile.keys;
      float of_y[kColumns], dd[kColumns], of_v[kColumns];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) of_y[c] = tile.in[t * tile.columns + part.column + c];
      d_state.add(q, of_y, part);
      d_state.times(dd, k, part);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) of_v[c] = -tile.b[t] * dd[c];
      d_state.add(k, of_v, part);
      d_state.scale(tile.a[t]);
      if (part.lane == 0)
#pragma unroll
        for (int c = 0; c < kColumns; ++c) tile.out[t * tile.columns + part.column + c] = dd[c];
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < count * tile.columns; i += kThreads) {
      const int t = i / tile.columns, c = i % tile.columns;
      if (c >= at.columns) continue;
      const std::int64_t token = first + begin + t;
      kept.rows[token * s.values() + column + c] = tile.out[i];
      d_mixed[token * s.mixed() + s.v_of_mixed() + column + c] =
          static_cast<T>(tile.b[t] * tile.out[i]);
    }
    __syncthreads();
  }
}

template <class T>
__global__ __launch_bounds__(kThreads) void forward_kernel(T* y, const Inputs<T> in,
                                                           const DeltaStates<float> states,
                                                           int lanes) {
  extern __shared__ __align__(16) float shared[];
  go_forward(shared, y, {}, in, states, lanes, blockIdx.x);
}

// The first half of the blocks go forward, the others back.
template <class T>
__global__ __launch_bounds__(kThreads) void both_ways_kernel(T* d_mixed, const T* dy,
                                                             const Kept forth, const Kept back,
                                                             const Inputs<T> in, int lanes) {
  extern __shared__ __align__(16) float shared[];
  if (const std::int64_t half = gridDim.x / 2; blockIdx.x < half)
    go_forward(shared, static_cast<T*>(nullptr), forth, in, {}, lanes, blockIdx.x);
  else
    go_back(shared, d_mixed, dy, back, in, lanes, blockIdx.x - half);
}

// --- Over a chunk -------------------------------------------------------------------------------

constexpr int kChunkThreads = 256, kChunkWarps = kChunkThreads / 32;
constexpr int kSome = 8;                           // tokens of a tile
constexpr int kChunkRows = 4, kChunkColumns = 16;  // of a thread's part
constexpr int kMostLanes = kMostDeltaDim / kChunkColumns;
static_assert(kMostLanes <= 32 && kMostDeltaDim <= 32 * kRows);

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

// ChunkTile: of some tokens what the rows of a state read, in shared memory: [kSome, keys] and
// [kSome, values], zeros where the head has fewer.
struct ChunkTile {
  float *q, *k, *d, *dd, *dy;
  int keys, values;

  __device__ ChunkTile(float* at, int keys, int values) : keys(keys), values(values) {
    q = at;
    k = q + kSome * keys;
    d = k + kSome * keys;
    dd = d + kSome * values;
    dy = dd + kSome * values;
  }
};
int padded_keys(const DeltaShape& s) {
  return static_cast<int>(ceil_div(s.key_dim, kChunkRows)) * kChunkRows;
}
int chunk_lanes(const DeltaShape& s) {
  int lanes = 1;
  while (lanes * kChunkColumns < s.value_dim) lanes *= 2;
  return lanes;
}
std::size_t chunk_tile_bytes(const DeltaShape& s) {
  return sizeof(float) * kSome *
         static_cast<std::size_t>(2 * padded_keys(s) + 3 * chunk_lanes(s) * kChunkColumns);
}

// ChunkGates: of a value head's tokens.
struct ChunkGates {
  float a[kChunk], b[kChunk], g[kChunk], d_g[kChunk];  // a: 0 where a document begins
  float b_db[kChunk];                                  // <dd, d>
  float dg[kChunk][kChunkWarps];                       // what is added to the next token's
  float end[kChunkWarps];                              // of the chunk's last token's successor
};

// Rows: kChunkRows rows of a state, of which a thread has kChunkColumns columns.
struct Rows {
  float x[kChunkRows][kChunkColumns];
  int lanes, lane, row;  // row: the first

  __device__ Rows(int lanes, int first)
      : lanes(lanes),
        lane(static_cast<int>(threadIdx.x) % lanes),
        row(first + static_cast<int>(threadIdx.x) / lanes * kChunkRows) {}
  __device__ int column(int c) const { return (c / kFour * lanes + lane) * kFour + c % kFour; }

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
  // body(four columns' first, the fours of two vectors that lie there).
  template <class Body>
  __device__ void for_fours(const float* u, const float* v, const Body& body) const {
#pragma unroll
    for (int c = 0; c < kChunkColumns; c += kFour) {
      const float4 a = *reinterpret_cast<const float4*>(u + column(c)),
                   b = *reinterpret_cast<const float4*>(v + column(c));
      const float of_u[] = {a.x, a.y, a.z, a.w}, of_v[] = {b.x, b.y, b.z, b.w};
      body(c, of_u, of_v);
    }
  }
};

// The four numbers of this thread's rows; zeros behind the last row.
__device__ inline void take_rows(float (&to)[kChunkRows], const float* from, const Rows& rows,
                                 int keys) {
  const float4 four =
      rows.row < keys ? *reinterpret_cast<const float4*>(from + rows.row) : make_float4(0, 0, 0, 0);
  to[0] = four.x;
  to[1] = four.y;
  to[2] = four.z;
  to[3] = four.w;
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
  __device__ void fill(const ChunkTile& tile, int first, int some) const {
    const DeltaShape& s = in.s;
    const int size = static_cast<int>(s.key_dim), width = static_cast<int>(s.value_dim);
    __syncthreads();  // what was there has been read
    for (int row = static_cast<int>(threadIdx.x) / 32; row < 2 * some; row += kChunkWarps) {
      const int i = row % some, which = row / some;
      normalize((which == 0 ? tile.q : tile.k) + i * tile.keys, keys(first + i, which), size,
                tile.keys, which == 0 ? rsqrtf(static_cast<float>(size)) : 1.0f);
    }
    for (int i = static_cast<int>(threadIdx.x); i < some * tile.values; i += kChunkThreads) {
      const int t = i / tile.values, c = i % tile.values;
      const std::int64_t place = token(first + t) * s.values() + head * width + c;
      tile.d[i] = c < width ? work.forth.rows[place] : 0.0f;
      tile.dd[i] = c < width ? work.back.rows[place] : 0.0f;
      tile.dy[i] = c < width ? to_float(dy[place]) : 0.0f;
    }
    __syncthreads();
  }

  __device__ void take_gates(ChunkGates& gates) const {
    for (int t = static_cast<int>(threadIdx.x); t < count; t += kChunkThreads) {
      const Gates of(in, token(t), head);
      gates.a[t] = in.begins(sequence, begin + t) ? 0.0f : of.a;
      gates.b[t] = of.b;
      gates.g[t] = of.g;
      gates.d_g[t] = of.d_g;
    }
    for (int i = static_cast<int>(threadIdx.x); i < kChunk * kChunkWarps; i += kChunkThreads)
      gates.dg[i / kChunkWarps][i % kChunkWarps] = 0;
    if (threadIdx.x < kChunkWarps) gates.end[threadIdx.x] = 0;
  }

  // A warp's sum of what its threads add to a token's dg.
  __device__ static void add(float& to, float x) {
    x = over_lanes(x);
    if (threadIdx.x % 32 == 0) to += x;
  }

  // The rows' parts of dq^ and dk^, and of dg, of a head that is the key head's first or another.
  __device__ void go_forward(Rows& state, const ChunkTile& tile, ChunkGates& gates,
                             bool first_head) const {
    for (int first = 0; first < count; first += kSome) {
      const int some = min(kSome, count - first);
      fill(tile, first, some);
      for (int i = 0; i < some; ++i) {
        const int t = first + i;
        const float a = gates.a[t], b = gates.b[t];
        float q[kChunkRows], k[kChunkRows], dq[kChunkRows] = {}, dk[kChunkRows] = {};
        take_rows(q, tile.q + i * tile.keys, state, tile.keys);
        take_rows(k, tile.k + i * tile.keys, state, tile.keys);
        const float* const dy_row = tile.dy + i * tile.values;
        state.for_fours(tile.d + i * tile.values, tile.dd + i * tile.values,
                        [&](int c, const float(&d)[kFour], const float(&dd)[kFour]) {
                          const float4 four =
                              *reinterpret_cast<const float4*>(dy_row + state.column(c));
                          const float of_y[] = {four.x, four.y, four.z, four.w};
#pragma unroll
                          for (int r = 0; r < kChunkRows; ++r)
#pragma unroll
                            for (int e = 0; e < kFour; ++e) {
                              float& x = state.x[r][c + e];
                              x *= a;
                              dk[r] -= x * dd[e];
                              x += k[r] * d[e];
                              dq[r] += x * of_y[e];
                            }
                        });
        float along = 0;
#pragma unroll
        for (int r = 0; r < kChunkRows; ++r) {
          dk[r] *= b;
          along += q[r] * dq[r] + k[r] * dk[r];
          dq[r] = over_lanes(dq[r], state.lanes);
          dk[r] = over_lanes(dk[r], state.lanes);
        }
        add(gates.dg[t][threadIdx.x / 32], along);
        if (state.lane != 0) continue;
        float *const to_q = d_keys(t, 0), *const to_k = d_keys(t, 1);
#pragma unroll
        for (int r = 0; r < kChunkRows; ++r) {
          const int row = state.row + r;
          if (row >= in.s.key_dim) continue;
          to_q[row] = (first_head ? 0.0f : to_q[row]) + dq[r];
          to_k[row] = (first_head ? 0.0f : to_k[row]) + dk[r];
        }
      }
    }
  }

  __device__ void go_back(Rows& d_state, const ChunkTile& tile, ChunkGates& gates) const {
    for (int first = (count - 1) / kSome * kSome; first >= 0; first -= kSome) {
      const int some = min(kSome, count - first);
      fill(tile, first, some);
      for (int i = some; i-- > 0;) {
        const int t = first + i;
        const float a = gates.a[t], b = gates.b[t];
        float q[kChunkRows], k[kChunkRows], dk[kChunkRows] = {};
        take_rows(q, tile.q + i * tile.keys, d_state, tile.keys);
        take_rows(k, tile.k + i * tile.keys, d_state, tile.keys);
        const float* const dd_row = tile.dd + i * tile.values;
        d_state.for_fours(tile.d + i * tile.values, tile.dy + i * tile.values,
                          [&](int c, const float(&d)[kFour], const float(&of_y)[kFour]) {
                            const float4 four =
                                *reinterpret_cast<const float4*>(dd_row + d_state.column(c));
                            const float dd[] = {four.x, four.y, four.z, four.w};
#pragma unroll
                            for (int r = 0; r < kChunkRows; ++r)
#pragma unroll
                              for (int e = 0; e < kFour; ++e) {
                                float& x = d_state.x[r][c + e];
                                x += q[r] * of_y[e];
                                dk[r] += x * d[e];
                                x = a * (x - k[r] * (b * dd[e]));
                              }
                          });
        float along = 0;
#pragma unroll
        for (int r = 0; r < kChunkRows; ++r) {
          along -= k[r] * dk[r];
          dk[r] = over_lanes(dk[r], d_state.lanes);
        }
        add(gates.dg[t][threadIdx.x / 32], along);
        if (d_state.lane != 0) continue;
        float* const to_k = d_keys(t, 1);
#pragma unroll
        for (int r = 0; r < kChunkRows; ++r)
          if (d_state.row + r < in.s.key_dim) to_k[d_state.row + r] += dk[r];
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

  // From what was added up to the gradients of the gates, by one thread.
  __device__ void finish_gates(T* d_projected, const ChunkGates& gates) const {
    const DeltaShape& s = in.s;
    float dg = 0, d_bias = 0, d_a_log = 0;
    for (const float x : gates.end) dg += x;
    for (int t = count; t-- > 0;) {
      for (const float x : gates.dg[t]) dg += x;
      if (gates.a[t] == 0) dg = 0;
      T* const row = d_projected + token(t) * s.projected();
      const float d_alpha = dg * gates.d_g[t];
      row[s.beta_of_projected() + head] = static_cast<T>(gates.b_db[t] * (1 - gates.b[t]));
      row[s.alpha_of_projected() + head] = static_cast<T>(d_alpha);
      d_bias += d_alpha;
      d_a_log += dg * gates.g[t];
    }
    const std::int64_t chunks = (s.length + kChunk - 1) / kChunk;
    float* const sums = work.sums + (sequence * chunks + index) * 2 * s.value_heads + head;
    sums[0] = d_bias;
    sums[s.value_heads] = d_a_log;
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
template <class T>
__global__ __launch_bounds__(kChunkThreads) void chunk_kernel(T* d_mixed, T* d_projected,
                                                              const T* dy, const ChunkWork work,
                                                              const Inputs<T> in, int lanes,
                                                              int keys) {
  extern __shared__ __align__(16) float shared[];
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
  const ChunkTile tile(shared, keys, lanes * kChunkColumns);
  for (int h = 0; h < s.group_heads(); ++h) {
    chunk.head = chunk.key_head * s.group_heads() + h;
    __syncthreads();  // the gates before have been read
    chunk.take_gates(gates);
    chunk.multiply_written(gates);
    for (int first = 0; first < s.key_dim; first += kChunkThreads / lanes * kChunkRows) {
      Rows rows(lanes, first);
      const auto take = [&](const Kept& kept) {
        const float* const from = kept.state(s, chunk.sequence, chunk.head, chunk.index);
        rows.for_places(
            s, [&](float& x, bool there, std::int64_t place) { x = there ? from[place] : 0.0f; });
      };
      take(work.forth);
      chunk.go_forward(rows, tile, gates, h == 0);
      const float* const behind = work.back.state(s, chunk.sequence, chunk.head, chunk.index);
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
    if (threadIdx.x == 0) chunk.finish_gates(d_projected, gates);
  }
  __syncthreads();
  chunk.go_back_through_norms(d_mixed);
}

unsigned blocks_through(const DeltaShape& s, int lanes) {
  return static_cast<unsigned>(s.sequences * s.value_heads *
                               ceil_div(s.value_dim, block_columns(lanes)));
}

}  // namespace

template <class T>
void delta_rule_forward(T* y, const T* mixed, const T* projected, const T* dt_bias, const T* a_log,
                        const std::int32_t* first_key, const DeltaStates<float>& states,
                        const DeltaShape& s, cudaStream_t stream) {
  if (s.tokens() == 0) return;
  const int lanes = lanes_for(s.key_dim);
  forward_kernel<T><<<blocks_through(s, lanes), kThreads, tile_bytes(lanes), stream>>>(
      y, {mixed, projected, dt_bias, a_log, first_key, s}, states, lanes);
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
  const int lanes = lanes_for(s.key_dim);
  both_ways_kernel<T><<<2 * blocks_through(s, lanes), kThreads, tile_bytes(lanes), stream>>>(
      d_mixed, dy, there.forth, there.back, in, lanes);
  const std::int64_t chunks = s.sequences * ceil_div(s.length, kChunk);
  chunk_kernel<T>
      <<<static_cast<unsigned>(chunks * s.key_heads), kChunkThreads, chunk_tile_bytes(s), stream>>>(
          d_mixed, d_projected, dy, there, in, chunk_lanes(s), padded_keys(s));
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
