#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/block_product.h"
#include "kernels/loops.h"
#include "kernels/softmax.h"

namespace mt::cpu {
namespace {

constexpr std::int64_t kQueries = 64, kKeys = 64;  // of one block of S

// Where things are, and which scores of a block count.  The block at (i, j) holds queries i, i + 1,
// ... and keys j, j + 1, ...
struct Place {
  const AttentionShape& shape;
  const Dropout& dropout;
  std::int64_t sequence, head;

  std::int64_t kv_head() const { return head / (shape.heads / shape.kv_heads); }
  std::int64_t q_stride() const { return shape.heads * shape.head_dim; }
  std::int64_t kv_row_stride() const { return shape.kv_heads * shape.head_dim; }
  std::int64_t q_row(std::int64_t i) const {  // offset of a query in q, o, dq and do
    return (sequence * shape.q_length + i) * q_stride() + head * shape.head_dim;
  }
  std::int64_t kv_row(std::int64_t j) const {  // offset of a key in k, v, dk and dv
    return (sequence * shape.kv_stride + j) * kv_row_stride() + kv_head() * shape.head_dim;
  }
  std::int64_t lse_row(std::int64_t i) const {
    return (sequence * shape.heads + head) * shape.q_length + i;
  }
  // Query i sees the first visible(i) keys.
  std::int64_t visible(std::int64_t i) const { return i + 1 + shape.kv_length - shape.q_length; }
  // How many of the `count` keys from j query i sees.
  std::int64_t visible(std::int64_t i, std::int64_t j, std::int64_t count) const {
    return std::clamp<std::int64_t>(visible(i) - j, 0, count);
  }

  template <class T>
  Block<T> queries(T* x, std::int64_t i) const {
    return {x + q_row(i), q_stride()};
  }
  template <class T>
  Block<T> keys(T* x, std::int64_t j, bool transpose = false) const {
    return {x + kv_row(j), kv_row_stride(), transpose};
  }
};

// factor[0..count) of P[i, j..]: 0 where an element is dropped, else 1 / (1 - p).  j % 4 == 0.
template <class T>
void dropout_factors(T* factor, const Place& at, std::int64_t i, std::int64_t j,
                     std::int64_t count) {
  const T kept = static_cast<T>(1 / (1 - at.dropout.p));
  const auto sample = static_cast<std::uint32_t>(at.dropout.record->first_sample + at.sequence);
  for (std::int64_t first = 0; first < count; first += 4) {
    const Counter words =
        philox({static_cast<std::uint32_t>((j + first) / 4), static_cast<std::uint32_t>(i),
                static_cast<std::uint32_t>(1 + at.head), sample},
               at.dropout.key);
    for (std::int64_t c = first; c < std::min(count, first + 4); ++c)
      factor[c] = words[c - first] >= at.dropout.threshold() ? kept : 0;
  }
}

// Whole vectors of a row; the room for them is there, and exp(-inf) = 0 is what masked keys count.
std::int64_t round_up(std::int64_t keys) { return (keys + kLanes - 1) / kLanes * kLanes; }

// The running maximum and sum of a block's rows of scores.
template <class T>
struct Running {
  T max[kQueries], sum[kQueries];
};

// Rows of S become rows of exp(S - running maximum), 0 where masked; o's rows, sums of earlier
// keys, are scaled to the new maximum.
template <class T>
void softmax_block(T* s, Running<T>& running, Block<T> o, const Place& at, std::int64_t i,
                   std::int64_t queries, std::int64_t j, std::int64_t keys) {
  const std::int64_t width = round_up(keys);
  for (std::int64_t r = 0; r < queries; ++r) {
    T* row = s + r * kKeys;
    const std::int64_t seen = at.visible(i + r, j, keys);
    if (seen == 0) {
      std::fill_n(row, keys, T(0));
      continue;
    }
    std::fill(row + seen, row + width, -std::numeric_limits<T>::infinity());
    const T top = std::max(running.max[r], row_max(row, width));
    const T scale = std::exp(running.max[r] - top);
    running.max[r] = top;
    running.sum[r] = running.sum[r] * scale + row_exp_sum(row, row, top, width);
    if (at.dropout.p > 0) {
      T factor[kKeys];
      dropout_factors(factor, at, i + r, j, seen);
      for (std::int64_t c = 0; c < seen; ++c) row[c] *= factor[c];
    }
    if (j > 0 && scale != 1)
      for (std::int64_t c = 0; c < at.shape.head_dim; ++c) o.data[r * o.stride + c] *= scale;
  }
}

// All of o and lse for `queries` queries from i.
template <class T>
void forward_block(T* o, T* lse, const T* q, const T* k, const T* v, const Place& at,
                   std::int64_t i, std::int64_t queries) {
  const std::int64_t d = at.shape.head_dim;
  const Block<T> out = at.queries(o, i);
  std::vector<T> s(kQueries * kKeys);
  Running<T> running;
  std::fill_n(running.max, queries, -std::numeric_limits<T>::infinity());
  std::fill_n(running.sum, queries, T(0));
  const std::int64_t end = at.visible(i + queries - 1);
  for (std::int64_t j = 0; j < end; j += kKeys) {
    const std::int64_t keys = std::min(kKeys, end - j);
    block_product<T>({s.data(), kKeys}, at.queries(q, i), at.keys(k, j, true), queries, keys, d,
                     static_cast<T>(at.shape.scale), 0);
    softmax_block(s.data(), running, out, at, i, queries, j, keys);
    block_product<T>(out, {s.data(), kKeys}, at.keys(v, j), queries, d, keys, 1, j > 0 ? 1 : 0);
  }
  for (std::int64_t r = 0; r < queries; ++r) {
    const T scale = 1 / running.sum[r];
    for (std::int64_t c = 0; c < d; ++c) out.data[r * out.stride + c] *= scale;
    lse[at.lse_row(i + r)] = running.max[r] + std::log(running.sum[r]);
  }
}

template <class T>
struct Gradients {  // what attention_backward is given
  T *dq, *dk, *dv;
  const T *d_o, *o, *lse, *q, *k, *v;
};

template <class T>
struct Scratch {                                         // blocks [kQueries, kKeys]
  std::vector<T> p = std::vector<T>(kQueries * kKeys);   // P, then dS
  std::vector<T> dp = std::vector<T>(kQueries * kKeys);  // do V^T
  std::vector<T> pd = std::vector<T>(kQueries * kKeys);  // dropout(P)
};

// From P in p and do V^T in dp: dropout(P) in pd and dS in p.
template <class T>
void gradient_row(T* __restrict__ p, T* __restrict__ pd, const T* __restrict__ dp,
                  const T* __restrict__ factor, T delta, std::int64_t width) {
  for (std::int64_t c = 0; c < width; ++c) {
    pd[c] = p[c] * factor[c];
    p[c] *= dp[c] * factor[c] - delta;
  }
}

// From S in w.p and do V^T in w.dp: dropout(P) in w.pd and dS in w.p.
template <class T>
void score_gradients(const Gradients<T>& g, const T* delta, Scratch<T>& w, const Place& at,
                     std::int64_t i, std::int64_t queries, std::int64_t j, std::int64_t keys) {
  const std::int64_t width = round_up(keys);
  T factor[kKeys];
  std::fill_n(factor, kKeys, T(1));
  for (std::int64_t r = 0; r < queries; ++r) {
    T *p = &w.p[r * kKeys], *pd = &w.pd[r * kKeys];
    const T* dp = &w.dp[r * kKeys];
    const std::int64_t seen = at.visible(i + r, j, keys);
    std::fill(p + seen, p + width, -std::numeric_limits<T>::infinity());
    row_exp_sum(p, p, g.lse[at.lse_row(i + r)], width);
    if (at.dropout.p > 0) dropout_factors(factor, at, i + r, j, seen);
    gradient_row(p, pd, dp, factor, delta[i + r], width);
    std::fill(p + seen, p + keys, T(0));
    std::fill(pd + seen, pd + keys, T(0));
  }
}

// Adds what queries from i and keys from j give to dq, dk and dv.
template <class T>
void backward_block(const Gradients<T>& g, const T* delta, Scratch<T>& w, const Place& at,
                    std::int64_t i, std::int64_t queries, std::int64_t j, std::int64_t keys) {
  const std::int64_t d = at.shape.head_dim;
  const T scale = static_cast<T>(at.shape.scale);
  const Block<T> p = {w.p.data(), kKeys}, dp = {w.dp.data(), kKeys};
  block_product<T>(p, at.queries(g.q, i), at.keys(g.k, j, true), queries, keys, d, scale, 0);
  block_product<T>(dp, at.queries(g.d_o, i), at.keys(g.v, j, true), queries, keys, d, 1, 0);
  score_gradients(g, delta, w, at, i, queries, j, keys);
  block_product<T>(at.keys(g.dv, j), {w.pd.data(), kKeys, true}, at.queries(g.d_o, i), keys, d,
                   queries, 1, 1);
  block_product<T>(at.queries(g.dq, i), {w.p.data(), kKeys}, at.keys(g.k, j), queries, d, keys,
                   scale, 1);
  block_product<T>(at.keys(g.dk, j), {w.p.data(), kKeys, true}, at.queries(g.q, i), keys, d,
                   queries, scale, 1);
}

// Everything of one key head of one sequence: dk and dv are sums over its query heads.
template <class T>
void backward_kv_head(const Gradients<T>& g, const AttentionShape& shape, const Dropout& dropout,
                      std::int64_t sequence, std::int64_t kv_head) {
  const std::int64_t length = shape.q_length, d = shape.head_dim;
  const std::int64_t group = shape.heads / shape.kv_heads;
  Scratch<T> w;
  std::vector<T> delta(static_cast<std::size_t>(length));
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const Place at{shape, dropout, sequence, head};
    for (std::int64_t i = 0; i < length; ++i) {
      const T *d_o = g.d_o + at.q_row(i), *o = g.o + at.q_row(i);
      delta[i] = sum<T>(d, [&](std::int64_t c) { return d_o[c] * o[c]; });
      std::fill_n(g.dq + at.q_row(i), d, T(0));
      if (head > kv_head * group) continue;
      std::fill_n(g.dk + at.kv_row(i), d, T(0));
      std::fill_n(g.dv + at.kv_row(i), d, T(0));
    }
    for (std::int64_t i = 0; i < length; i += kQueries)
      for (std::int64_t j = 0; j < std::min(length, i + kQueries); j += kKeys)
        backward_block(g, delta.data(), w, at, i, std::min(kQueries, length - i), j,
                       std::min(kKeys, length - j));
  }
}

}  // namespace

template <class T>
void attention_forward(T* o, T* lse, const T* q, const T* k, const T* v,
                       const AttentionShape& shape, const Dropout& dropout) {
  const std::int64_t blocks = (shape.q_length + kQueries - 1) / kQueries;
  for_blocks(shape.sequences * shape.heads * blocks, 1, [&](std::int64_t task, std::int64_t) {
    const std::int64_t i = task % blocks * kQueries, place = task / blocks;
    forward_block(o, lse, q, k, v, Place{shape, dropout, place / shape.heads, place % shape.heads},
                  i, std::min(kQueries, shape.q_length - i));
  });
}

template <class T>
void attention_backward(T* dq, T* dk, T* dv, const T* d_o, const T* o, const T* lse, const T* q,
                        const T* k, const T* v, const AttentionShape& shape,
                        const Dropout& dropout) {
  const Gradients<T> g = {dq, dk, dv, d_o, o, lse, q, k, v};
  for_blocks(shape.sequences * shape.kv_heads, 1, [&](std::int64_t task, std::int64_t) {
    backward_kv_head(g, shape, dropout, task / shape.kv_heads, task % shape.kv_heads);
  });
}

template void attention_forward(float*, float*, const float*, const float*, const float*,
                                const AttentionShape&, const Dropout&);
template void attention_forward(double*, double*, const double*, const double*, const double*,
                                const AttentionShape&, const Dropout&);
template void attention_backward(float*, float*, float*, const float*, const float*, const float*,
                                 const float*, const float*, const float*, const AttentionShape&,
                                 const Dropout&);
template void attention_backward(double*, double*, double*, const double*, const double*,
                                 const double*, const double*, const double*, const double*,
                                 const AttentionShape&, const Dropout&);

}  // namespace mt::cpu
