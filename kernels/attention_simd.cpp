// kernels/attention_simd.cpp: attention for float over blocks of 64 queries and 64 keys.  A block
// of scores is kept transposed, [key][query]: the softmax of 16 queries is then vertical, a loop
// over keys, and every product is one of rows of scalars with rows of vectors (small_product.h).
// Tiles of 16 queries do not compute the keys after those that they see, but for some to fill 16,
// nor, before them, whole blocks of keys.
#include "kernels/attention_simd.h"

#include <cmath>
#include <limits>
#include <memory>

#include "kernels/attention_place.h"
#include "kernels/loops.h"
#include "kernels/small_product.h"

namespace mt::cpu::simd {
namespace {

constexpr std::int64_t kSide = 64;  // queries, and keys, of a block
constexpr float kInf = std::numeric_limits<float>::infinity();

// A block of queries from `first`; tile t is its queries 16 t to 16 t + 15.
struct Queries {
  const AttentionPlace& at;
  std::int64_t first, count;

  std::int64_t tiles() const { return (count + kLanes - 1) / kLanes; }
  // Where the keys end that query i of the block sees (beyond the last one: that it sees), and
  // where those end that some query of it sees.
  std::int64_t end_of(std::int64_t i) const { return at.end(first + std::min(i, count - 1)); }
  std::int64_t end() const { return end_of(count - 1); }
  // How many of the keys from j on are seen by the first `rows` queries, of at most kSide.
  std::int64_t seen(std::int64_t rows, std::int64_t j) const {
    return std::clamp<std::int64_t>(end_of(rows - 1) - j, 0, kSide);
  }
  // How many of them a tile computes: those that it sees, up to the end of 16.
  std::int64_t computed(std::int64_t tile, std::int64_t j) const {
    const std::int64_t whole = (seen((tile + 1) * kLanes, j) + kLanes - 1) / kLanes * kLanes;
    return std::min(whole, seen(count, j));
  }
  // The first block of keys that a tile sees.
  std::int64_t first_block(std::int64_t tile) const {
    return at.first(first + tile * kLanes) / kSide * kSide;
  }
};

// y[c][i] = factor x[i][c]: [rows, cols] with x_stride becomes [cols, kSide], zeros beyond `rows`.
void transpose(float* y, const float* x, std::int64_t x_stride, std::int64_t rows,
               std::int64_t cols, float factor) {
  for (std::int64_t c = 0; c < cols; ++c) {
    for (std::int64_t i = 0; i < rows; ++i) y[c * kSide + i] = factor * x[i * x_stride + c];
    std::fill(y + c * kSide + rows, y + (c + 1) * kSide, 0.0f);
  }
}

// Rows of the block are hidden from the queries of a tile that see none from there on; -inf for
// those.
struct Mask {
  std::int64_t seen_by_all;  // rows below this one are hidden from none
  Ints seen = {};            // by each query, where not by all

  Mask(const Queries& q, std::int64_t tile, std::int64_t j)
      : seen_by_all(q.at.end(q.first + tile * kLanes) - j) {
    if (seen_by_all >= kSide) return;
    for (int l = 0; l < kLanes; ++l)
      seen[l] = static_cast<std::int32_t>(q.end_of(tile * kLanes + l) - j);
  }
  [[gnu::always_inline]] Floats operator()(Floats s, std::int64_t row) const {
    if (row < seen_by_all) return s;
    return seen > static_cast<std::int32_t>(row) ? s : Floats{} - kInf;
  }
};

// Scores of keys before a query's first become -inf.
void hide_before_first(float* s, const Queries& q, std::int64_t tile, std::int64_t j,
                       std::int64_t keys) {
  const std::int64_t first = q.first + tile * kLanes,
                     last = std::min(first + kLanes, q.first + q.count) - 1;
  if (q.at.first(last) <= j) return;
  for (std::int64_t i = 0; i <= last - first; ++i) {
    const std::int64_t before = q.at.first(first + i) - j;
    for (std::int64_t row = 0; row < std::min(keys, before); ++row) s[row * kSide + i] = -kInf;
  }
}

// Running: the online softmax of one tile of queries over the keys that it has seen so far.
struct Running {
  Floats max = Floats{} - kInf, sum = {};
};

// Scores of `keys` rows become exp(score - maximum); returns what earlier sums are to be scaled by.
[[gnu::always_inline]] inline Floats softmax_tile(float* s, std::int64_t keys, const Mask& mask,
                                                  Running& running) {
  Floats top = running.max;
  for (std::int64_t j = 0; j < keys; ++j) {
    const Floats v = mask(load(s + j * kSide), j);
    top = v > top ? v : top;
  }
  const Floats shift = top == -kInf ? Floats{} : top;  // of queries that have seen no key yet
  const Floats scale = exp(running.max - shift);
  Floats total = running.sum * scale;
  for (std::int64_t j = 0; j < keys; ++j) {
    const Floats v = exp(mask(load(s + j * kSide), j) - shift);
    store(s + j * kSide, v);
    total += v;
  }
  running = {top, total};
  return scale;
}

// factor[j][i] of a tile, in whole eights of keys: 0 where P is dropped, else what it is multiplied
// with.
void dropout_tile(float* factor, const Queries& q, std::int64_t tile, std::int64_t first_key,
                  std::int64_t keys) {
  const HalfThreshold threshold(q.at.dropout.p);
  const auto kept = static_cast<float>(threshold.factor);
  for (std::int64_t j = 0; j < keys; j += 8)
    for (std::int64_t i = 0; i < kLanes; ++i) {
      const Counter words = q.at.dropout_words(q.first + tile * kLanes + i, first_key + j);
      for (std::int64_t n = 0; n < 8; ++n)
        factor[(j + n) * kSide + i] = q.at.half(words, n) >= threshold.value ? kept : 0;
    }
}

struct Scratch {  // of one task
  std::unique_ptr<float[]> storage;
  float *qt, *d_ot;  // [head_dim, kSide]: scale q and do, transposed
  float *s, *dp;     // [kSide, kSide]: S, then dropout(P); do V^T, then dS
  float* factor;     // [kSide, kSide]: of dropout
  float lse[kSide] = {}, delta[kSide] = {};

  explicit Scratch(std::int64_t head_dim) {
    constexpr std::int64_t kSquare = kSide * kSide;
    const std::int64_t side = head_dim * kSide;
    const auto count = static_cast<std::size_t>(2 * side + 3 * kSquare);
    storage = std::make_unique_for_overwrite<float[]>(count);
    qt = storage.get();
    d_ot = qt + side;
    s = d_ot + side;
    dp = s + kSquare;
    factor = dp + kSquare;
  }
};

struct ForwardInput {
  const float *q, *k, *v;
};

// Adds the keys from j to o, max and sum of one tile, if it sees any.
[[gnu::always_inline]] inline void forward_tile(float* o, const ForwardInput& in, const Queries& q,
                                                std::int64_t tile, std::int64_t j, Running& running,
                                                Scratch& w) {
  float* s = w.s;
  const AttentionPlace& at = q.at;
  const std::int64_t d = at.shape.head_dim, keys = q.seen((tile + 1) * kLanes, j);
  const bool begins = j == q.first_block(tile);
  if (keys == 0 || j < q.first_block(tile)) return;
  multiply({.c = s,
            .c_stride = kSide,
            .a = in.k + at.kv_row(j),
            .a_row = at.kv_stride(),
            .a_column = 1,
            .b = w.qt + tile * kLanes,
            .b_stride = kSide,
            .rows = keys,
            .cols = kLanes,
            .k = d,
            .accumulate = false});
  hide_before_first(s, q, tile, j, keys);
  float scale[kLanes];
  store(scale, softmax_tile(s, keys, Mask(q, tile, j), running));
  if (at.dropout.p > 0) {
    dropout_tile(w.factor, q, tile, j, keys);
    for (std::int64_t r = 0; r < keys * kSide; r += kSide)
      store(s + r, load(s + r) * load(w.factor + r));
  }
  const std::int64_t queries = std::min<std::int64_t>(kLanes, q.count - tile * kLanes);
  float* rows = o + at.o_row(q.first + tile * kLanes);
  for (std::int64_t r = 0; !begins && r < queries; ++r)
    for (std::int64_t c = 0; c < d; c += kLanes) {
      float* part = rows + r * at.o_stride() + c;
      store(part, load(part) * scale[r]);
    }
  for (std::int64_t r = 0; r < queries; r += 8)
    multiply({.c = rows + r * at.o_stride(),
              .c_stride = at.o_stride(),
              .a = s + r,
              .a_row = 1,
              .a_column = kSide,
              .b = in.v + at.kv_row(j),
              .b_stride = at.kv_stride(),
              .rows = std::min<std::int64_t>(8, queries - r),
              .cols = d,
              .k = q.seen(tile * kLanes + r + 8, j),
              .accumulate = !begins});
}

void forward_block(float* o, float* lse, const ForwardInput& in, const Queries& q, Scratch& w) {
  const AttentionPlace& at = q.at;
  const std::int64_t d = at.shape.head_dim;
  transpose(w.qt, in.q + at.q_row(q.first), at.q_stride(), q.count, d,
            static_cast<float>(at.shape.scale));
  Running running[kSide / kLanes];
  for (std::int64_t j = q.first_block(0); j < q.end(); j += kSide)
    for (std::int64_t tile = 0; tile < q.tiles(); ++tile)
      forward_tile(o, in, q, tile, j, running[tile], w);
  for (std::int64_t i = 0; i < q.count; ++i) {
    const Running& of_tile = running[i / kLanes];
    const float sum = of_tile.sum[i % kLanes], max = of_tile.max[i % kLanes];
    lse[at.lse_row(q.first + i)] = max + std::log(sum);
    for (std::int64_t c = 0; c < d; c += kLanes) {
      float* part = o + at.o_row(q.first + i) + c;
      store(part, load(part) * (1 / sum));
    }
  }
}

// From S in s and do V^T in dp, both of `keys` rows: dropout(P) in s and scale dS in dp.  factor is
// null without dropout.
[[gnu::always_inline]] inline void gradient_tile(float* s, float* dp, const float* factor,
                                                 const float* lse, const float* delta,
                                                 std::int64_t keys, const Mask& mask, float scale) {
  const Floats shift = load(lse), sum = load(delta);
  for (std::int64_t j = 0; j < keys * kSide; j += kSide) {
    const Floats p = exp(mask(load(s + j), j / kSide) - shift);
    const Floats kept = factor ? load(factor + j) : Floats{} + 1.0f;
    store(s + j, p * kept);
    store(dp + j, p * (load(dp + j) * kept - sum) * scale);
  }
}

// S, do V^T and dropout of one tile, and dQ of its queries, if it sees any of the keys from j.
[[gnu::always_inline]] inline void backward_tile(const AttentionGradients& g, const Queries& q,
                                                 std::int64_t tile, std::int64_t j, Scratch& w) {
  const AttentionPlace& at = q.at;
  const std::int64_t d = at.shape.head_dim, keys = q.computed(tile, j);
  const std::int64_t column = tile * kLanes;
  if (keys == 0 || j < q.first_block(tile)) return;
  SmallProduct scores = {.c = w.s + column,
                         .c_stride = kSide,
                         .a = g.k + at.kv_row(j),
                         .a_row = at.kv_stride(),
                         .a_column = 1,
                         .b = w.qt + column,
                         .b_stride = kSide,
                         .rows = keys,
                         .cols = kLanes,
                         .k = d,
                         .accumulate = false};
  multiply(scores);
  hide_before_first(w.s + column, q, tile, j, keys);
  scores.c = w.dp + column;
  scores.a = g.v + at.kv_row(j);
  scores.b = w.d_ot + column;
  multiply(scores);
  if (at.dropout.p > 0) dropout_tile(w.factor + column, q, tile, j, keys);
  gradient_tile(w.s + column, w.dp + column, at.dropout.p > 0 ? w.factor + column : nullptr,
                w.lse + column, w.delta + column, keys, Mask(q, tile, j),
                static_cast<float>(at.shape.scale));
  for (std::int64_t r = column; r < std::min(q.count, column + kLanes); r += 8)
    multiply({.c = g.dq + at.q_row(q.first + r),
              .c_stride = at.q_stride(),
              .a = w.dp + r,
              .a_row = 1,
              .a_column = kSide,
              .b = g.k + at.kv_row(j),
              .b_stride = at.kv_stride(),
              .rows = std::min<std::int64_t>(8, q.count - r),
              .cols = d,
              .k = q.seen(r + 8, j),
              .accumulate = j > q.first_block(tile)});
}

// What a block of queries adds to dk and dv of the keys from j: 16 keys at a time, from the first
// tile that sees them to the last that sees the block.
[[gnu::always_inline]] inline void backward_keys(const AttentionGradients& g, const Queries& q,
                                                 std::int64_t j, const Scratch& w) {
  const AttentionPlace& at = q.at;
  const std::int64_t keys = q.seen(q.count, j);
  std::int64_t tiles = q.tiles();
  while (q.first_block(tiles - 1) > j) --tiles;
  const std::int64_t to = std::min(q.count, tiles * kLanes);
  for (std::int64_t row = 0; row < keys; row += kLanes) {
    const std::int64_t first = at.first_query(j + row) - q.first;
    const std::int64_t from = std::max<std::int64_t>(0, first) / kLanes * kLanes;
    SmallProduct product = {.c = g.dv + at.kv_row(j + row),
                            .c_stride = at.kv_stride(),
                            .a = w.s + row * kSide + from,
                            .a_row = kSide,
                            .a_column = 1,
                            .b = g.d_o + at.o_row(q.first + from),
                            .b_stride = at.o_stride(),
                            .rows = std::min<std::int64_t>(kLanes, keys - row),
                            .cols = at.shape.head_dim,
                            .k = to - from,
                            .accumulate = true};
    multiply(product);
    product.c = g.dk + at.kv_row(j + row);
    product.a = w.dp + row * kSide + from;
    product.b = g.q + at.q_row(q.first + from);
    product.b_stride = at.q_stride();
    multiply(product);
  }
}

void backward_block(const AttentionGradients& g, const Queries& q, Scratch& w) {
  const AttentionPlace& at = q.at;
  const std::int64_t d = at.shape.head_dim;
  transpose(w.qt, g.q + at.q_row(q.first), at.q_stride(), q.count, d,
            static_cast<float>(at.shape.scale));
  transpose(w.d_ot, g.d_o + at.o_row(q.first), at.o_stride(), q.count, d, 1.0f);
  for (std::int64_t i = 0; i < q.count; ++i) {
    const float *d_o = g.d_o + at.o_row(q.first + i), *o = g.o + at.o_row(q.first + i);
    w.lse[i] = g.lse[at.lse_row(q.first + i)];
    w.delta[i] = sum<float>(d, [&](std::int64_t c) { return d_o[c] * o[c]; });
  }
  for (std::int64_t j = q.first_block(0); j < q.end(); j += kSide) {
    for (std::int64_t tile = 0; tile < q.tiles(); ++tile) backward_tile(g, q, tile, j, w);
    backward_keys(g, q, j, w);
  }
}

// What one query head adds to dk and dv, and its dq; the first of a group zeroes dk and dv.
void backward_head(const AttentionGradients& g, const AttentionPlace& at, bool first, Scratch& w) {
  const std::int64_t length = at.shape.q_length;
  for (std::int64_t j = 0; first && j < at.shape.kv_length; ++j) {
    std::fill_n(g.dk + at.kv_row(j), at.shape.head_dim, 0.0f);
    std::fill_n(g.dv + at.kv_row(j), at.shape.head_dim, 0.0f);
  }
  for (std::int64_t i = 0; i < length; i += kSide)
    backward_block(g, Queries{at, i, std::min(kSide, length - i)}, w);
}

}  // namespace

bool attention_fits(const AttentionShape& shape) {
  return shape.head_dim % kLanes == 0 && shape.q_length >= 4 && shape.bias == nullptr &&
         shape.softcap == 0 && (shape.kv_runs == 1 || shape.kv_stride % kSide == 0);
}

void attention_forward(float* o, float* lse, const float* q, const float* k, const float* v,
                       const std::int32_t* first_key, const AttentionShape& shape,
                       const Dropout& dropout) {
  const std::int64_t blocks = (shape.q_length + kSide - 1) / kSide;
  parallel_for(shape.sequences * shape.heads * blocks, [&](std::int64_t task) {
    const std::int64_t i = task % blocks * kSide, place = task / blocks;
    const AttentionPlace at{shape, dropout, first_key, place / shape.heads, place % shape.heads};
    const Queries queries = {at, i, std::min(kSide, shape.q_length - i)};
    Scratch scratch(shape.head_dim);
    run([&] { forward_block(o, lse, {q, k, v}, queries, scratch); });
  });
}

void attention_backward(const AttentionGradients& g, const std::int32_t* first_key,
                        const AttentionShape& shape, const Dropout& dropout) {
  parallel_for(shape.sequences * shape.kv_heads, [&](std::int64_t task) {
    Scratch scratch(shape.head_dim);
    for (std::int64_t n = 0; n < shape.group(); ++n) {
      const std::int64_t head = task % shape.kv_heads * shape.group() + n;
      const AttentionPlace at{shape, dropout, first_key, task / shape.kv_heads, head};
      run([&] { backward_head(g, at, n == 0, scratch); });
    }
  });
}

}  // namespace mt::cpu::simd
