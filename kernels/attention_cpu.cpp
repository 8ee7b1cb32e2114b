#include "kernels/attention.h"

#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/attention_place.h"
#include "kernels/attention_simd.h"
#include "kernels/loops.h"
#include "kernels/softmax.h"

namespace mt::cpu {
namespace {

template <class T>
void add_scaled(T* __restrict__ y, T factor, const T* __restrict__ x, std::int64_t count) {
  for (std::int64_t c = 0; c < count; ++c) y[c] += factor * x[c];
}

template <class T>
T dot(const T* a, const T* b, std::int64_t count) {
  return sum<T>(count, [&](std::int64_t c) { return a[c] * b[c]; });
}

// s[j] = cap(scale q_i k_j + bias) for the keys that query i sees.
template <class T>
void scores(T* s, const T* q, const T* k, const AttentionPlace& at, std::int64_t i) {
  const T scale = static_cast<T>(at.shape.scale);
  for (std::int64_t j = at.first(i); j < at.end(i); ++j)
    s[j] = scale * dot(q + at.q_row(i), k + at.kv_row(j), at.shape.head_dim);
  if (at.shape.bias != nullptr) {
    const T* bias = at.bias<T>(i);
    for (std::int64_t j = at.first(i); j < at.end(i); ++j) s[j] += bias[j];
  }
  if (at.shape.softcap == 0) return;
  const T cap = static_cast<T>(at.shape.softcap);
  for (std::int64_t j = at.first(i); j < at.end(i); ++j) s[j] = cap * std::tanh(s[j] / cap);
}

// factor[j] of P[i,j]: 0 where it is dropped, else 1 / (1 - p).
template <class T>
void dropout_factors(T* factor, const AttentionPlace& at, std::int64_t i) {
  const HalfThreshold threshold(at.dropout.p);
  const T kept = static_cast<T>(threshold.factor);
  Counter words = {};
  std::int64_t eight = -1;  // whose words they are
  for (std::int64_t j = at.first(i); j < at.end(i); ++j) {
    const std::int64_t position = at.key(j);
    if (const std::int64_t before = std::exchange(eight, position / 8); before != eight)
      words = at.dropout_words(i, eight * 8);
    factor[j] = at.half(words, position) >= threshold.value ? kept : 0;
  }
}

// o_i goes to `row`; returns lse[i].  s is scratch of kv_length elements, as is factor.
template <class T>
T attend_row(T* row, const T* q, const T* k, const T* v, const AttentionPlace& at, std::int64_t i,
             T* s, T* factor) {
  const std::int64_t first = at.first(i), end = at.end(i), d = at.shape.head_dim;
  scores(s, q, k, at, i);
  const T top = row_max(s + first, end - first);
  const T total = row_exp_sum(s + first, s + first, top, end - first);
  if (at.dropout.p > 0) dropout_factors(factor, at, i);
  std::fill_n(row, d, T(0));
  for (std::int64_t j = first; j < end; ++j)
    add_scaled(row, s[j] / total * factor[j], v + at.kv_row(j), d);
  return top + std::log(total);
}

// o_i and lse[i] of the keys so far, if there are any, become those of these too; `row` is scratch
// of head_dim elements.
template <class T>
void merge_row(T* o, T* lse, const T* q, const T* k, const T* v, const AttentionPlace& at,
               std::int64_t i, bool is_first, T* s, T* factor, T* row) {
  T *so_far = o + at.o_row(i), &before = lse[at.lse_row(i)];
  if (is_first) {
    std::fill_n(so_far, at.shape.head_dim, T(0));
    before = -std::numeric_limits<T>::infinity();
  }
  if (at.first(i) >= at.end(i)) return;
  const T here = attend_row(row, q, k, v, at, i, s, factor);
  const T top = std::max(before, here);
  const T joined = top + std::log(std::exp(before - top) + std::exp(here - top));
  const T keep = std::exp(before - joined), take = std::exp(here - joined);
  for (std::int64_t c = 0; c < at.shape.head_dim; ++c) so_far[c] = so_far[c] * keep + row[c] * take;
  before = joined;
}

template <class T>
struct Backward {  // what attention_backward is given
  T *dq, *dk, *dv;
  const T *d_o, *o, *lse, *q, *k, *v;
};

// What a row of P needs: of kv_length elements each.
template <class T>
struct Row {
  explicit Row(const AttentionShape& s)
      : p(static_cast<std::size_t>(s.kv_length)), factor(p.size(), T(1)), slope(p.size(), T(1)) {}
  std::vector<T> p, factor, slope;
};

// Makes the P, the dropout and the slope of the cap of query i; returns delta.
template <class T>
T forward_again(const Backward<T>& g, const AttentionPlace& at, std::int64_t i, Row<T>& row) {
  const std::int64_t first = at.first(i), end = at.end(i);
  T *const p = row.p.data(), *const factor = row.factor.data();
  scores(p, g.q, g.k, at, i);
  if (const T cap = static_cast<T>(at.shape.softcap); cap != 0)
    for (std::int64_t j = first; j < end; ++j) row.slope[j] = 1 - p[j] / cap * (p[j] / cap);
  row_exp_sum(p + first, p + first, g.lse[at.lse_row(i)], end - first);
  if (at.dropout.p > 0) dropout_factors(factor, at, i);
  return dot(g.d_o + at.o_row(i), g.o + at.o_row(i), at.shape.head_dim);
}

// What query i adds to dq, dk and dv; row is scratch.
template <class T>
void backward_row(const Backward<T>& g, const AttentionPlace& at, std::int64_t i, Row<T>& row) {
  const std::int64_t d = at.shape.head_dim;
  const T *p = row.p.data(), *factor = row.factor.data();
  const T *q = g.q + at.q_row(i), *d_o = g.d_o + at.o_row(i);
  T* dq = g.dq + at.q_row(i);
  const T delta = forward_again(g, at, i, row);
  for (std::int64_t j = at.first(i); j < at.end(i); ++j) {
    const std::int64_t kv = at.kv_row(j);
    const T dp = factor[j] * dot(d_o, g.v + kv, d);
    const T ds = static_cast<T>(at.shape.scale) * p[j] * (dp - delta) * row.slope[j];
    add_scaled(g.dv + kv, p[j] * factor[j], d_o, d);
    add_scaled(dq, ds, g.k + kv, d);
    add_scaled(g.dk + kv, ds, q, d);
  }
}

// What one query head adds to dq, dk and dv, which it zeroes first where nothing is so far.
template <class T>
void backward_head(const Backward<T>& g, const AttentionPlace& at, AttentionSoFar so_far,
                   Row<T>& row) {
  run([&] {
    for (std::int64_t j = 0; !so_far.of_keys && j < at.shape.kv_length; ++j) {
      std::fill_n(g.dk + at.kv_row(j), at.shape.head_dim, T(0));
      std::fill_n(g.dv + at.kv_row(j), at.shape.head_dim, T(0));
    }
    for (std::int64_t i = 0; i < at.shape.q_length; ++i) {
      if (!so_far.of_queries) std::fill_n(g.dq + at.q_row(i), at.shape.head_dim, T(0));
      backward_row(g, at, i, row);
    }
  });
}

}  // namespace

template <class T>
void attention_forward(T* o, T* lse, const T* q, const T* k, const T* v,
                       const std::int32_t* first_key, const AttentionShape& shape,
                       const Dropout& dropout) {
  if constexpr (std::is_same_v<T, float>)
    if (!shape.queries_alone && simd::attention_fits(shape))
      return simd::attention_forward(o, lse, q, k, v, first_key, shape, dropout);
  constexpr std::int64_t kRows = 16;  // queries of one task
  const std::int64_t blocks = (shape.q_length + kRows - 1) / kRows;
  parallel_for(shape.sequences * shape.heads * blocks, [&](std::int64_t task) {
    const std::int64_t i = task % blocks * kRows, place = task / blocks;
    const AttentionPlace at{shape, dropout, first_key, place / shape.heads, place % shape.heads};
    std::vector<T> s(static_cast<std::size_t>(shape.kv_length)), factor(s.size(), T(1));
    run([&] {
      for (std::int64_t r = i; r < std::min(shape.q_length, i + kRows); ++r)
        lse[at.lse_row(r)] = attend_row(o + at.o_row(r), q, k, v, at, r, s.data(), factor.data());
    });
  });
}

template <class T>
void attention_backward(T* dq, T* dk, T* dv, const T* d_o, const T* o, const T* lse, const T* q,
                        const T* k, const T* v, const std::int32_t* first_key,
                        const AttentionShape& shape, const Dropout& dropout) {
  if constexpr (std::is_same_v<T, float>)
    if (simd::attention_fits(shape))
      return simd::attention_backward({dq, dk, dv, d_o, o, lse, q, k, v}, first_key, shape,
                                      dropout);
  const Backward<T> g = {dq, dk, dv, d_o, o, lse, q, k, v};
  parallel_for(shape.sequences * shape.kv_heads, [&](std::int64_t task) {
    Row<T> row(shape);
    for (std::int64_t n = 0; n < shape.group(); ++n) {
      const std::int64_t head = task % shape.kv_heads * shape.group() + n;
      const AttentionPlace at{shape, dropout, first_key, task / shape.kv_heads, head};
      const AttentionSoFar so_far{.of_queries = false, .of_keys = n > 0};
      backward_head(g, at, so_far, row);
    }
  });
}

template <class T>
void attention_bias_backward(T* d_bias, const T* d_o, const T* o, const T* lse, const T* q,
                             const T* k, const T* v, const std::int32_t* first_key,
                             const AttentionShape& shape, const Dropout& dropout) {
  const Backward<T> g = {nullptr, nullptr, nullptr, d_o, o, lse, q, k, v};
  const std::int64_t span = 2 * shape.kv_length - 1;
  parallel_for(shape.heads, [&](std::int64_t head) {
    Row<T> row(shape);
    std::fill_n(d_bias + head * span, span, T(0));
    for (std::int64_t task = 0; task < shape.sequences * shape.q_length; ++task) {
      const AttentionPlace at{shape, dropout, first_key, task / shape.q_length, head};
      const std::int64_t i = task % shape.q_length;
      const T delta = forward_again(g, at, i, row);
      for (std::int64_t j = at.first(i); j < at.end(i); ++j) {
        const T dp = dot(d_o + at.o_row(i), v + at.kv_row(j), shape.head_dim);
        d_bias[at.bias_place(i) + j] += row.p[j] * (row.factor[j] * dp - delta) * row.slope[j];
      }
    }
  });
}

template <class T>
void attention_part_forward(T* o, T* lse, const T* q, const T* k, const T* v,
                            const std::int32_t* first_key, const AttentionShape& shape,
                            const AttentionRange& range, const Dropout& dropout,
                            AttentionSoFar so_far) {
  parallel_for(shape.heads, [&](std::int64_t head) {
    const AttentionPlace at{shape, dropout, first_key, 0, head, &range};
    std::vector<T> s(static_cast<std::size_t>(shape.kv_length)), factor(s.size(), T(1));
    std::vector<T> row(static_cast<std::size_t>(shape.head_dim));
    run([&] {
      for (std::int64_t i = 0; i < shape.q_length; ++i)
        merge_row(o, lse, q, k, v, at, i, !so_far.of_queries, s.data(), factor.data(), row.data());
    });
  });
}

template <class T>
void attention_part_backward(T* dq, T* dk, T* dv, const T* d_o, const T* o, const T* lse,
                             const T* q, const T* k, const T* v, const std::int32_t* first_key,
                             const AttentionShape& shape, const AttentionRange& range,
                             const Dropout& dropout, AttentionSoFar so_far) {
  const Backward<T> g = {dq, dk, dv, d_o, o, lse, q, k, v};
  parallel_for(shape.kv_heads, [&](std::int64_t kv_head) {
    Row<T> row(shape);
    for (std::int64_t n = 0; n < shape.group(); ++n) {
      const AttentionPlace at{shape, dropout, first_key, 0, kv_head * shape.group() + n, &range};
      const AttentionSoFar before{.of_queries = so_far.of_queries,
                                  .of_keys = so_far.of_keys || n > 0};
      backward_head(g, at, before, row);
    }
  });
}

#define INSTANTIATE(T)                                                                             \
  template void attention_part_forward(T*, T*, const T*, const T*, const T*, const std::int32_t*,  \
                                       const AttentionShape&, const AttentionRange&,               \
                                       const Dropout&, AttentionSoFar);                            \
  template void attention_part_backward(                                                           \
      T*, T*, T*, const T*, const T*, const T*, const T*, const T*, const T*, const std::int32_t*, \
      const AttentionShape&, const AttentionRange&, const Dropout&, AttentionSoFar)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

template void attention_bias_backward(float*, const float*, const float*, const float*,
                                      const float*, const float*, const float*, const std::int32_t*,
                                      const AttentionShape&, const Dropout&);
template void attention_bias_backward(double*, const double*, const double*, const double*,
                                      const double*, const double*, const double*,
                                      const std::int32_t*, const AttentionShape&, const Dropout&);
template void attention_forward(float*, float*, const float*, const float*, const float*,
                                const std::int32_t*, const AttentionShape&, const Dropout&);
template void attention_forward(double*, double*, const double*, const double*, const double*,
                                const std::int32_t*, const AttentionShape&, const Dropout&);
template void attention_backward(float*, float*, float*, const float*, const float*, const float*,
                                 const float*, const float*, const float*, const std::int32_t*,
                                 const AttentionShape&, const Dropout&);
template void attention_backward(double*, double*, double*, const double*, const double*,
                                 const double*, const double*, const double*, const double*,
                                 const std::int32_t*, const AttentionShape&, const Dropout&);

}  // namespace mt::cpu
