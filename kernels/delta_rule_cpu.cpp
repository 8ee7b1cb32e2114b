// A task for each sequence and key head.  The backward keeps the states that come into blocks of
// tokens, and makes those of a block again.
#include "kernels/delta_rule.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/loops.h"
#include "kernels/sigmoid.h"

namespace mt::cpu {
namespace {

constexpr std::int64_t kTokens = 32;  // of a block

template <class T>
struct Inputs {
  const T *mixed, *projected, *dt_bias, *a_log;
  const std::int32_t* first_key;
  const DeltaShape& s;

  bool begins(std::int64_t sequence, std::int64_t t) const {
    return first_key != nullptr ? first_key[sequence * s.length + t] == t : t == 0;
  }
};

// 1 / sqrt(|x|^2 + e); y = x times that and `scale`.
template <class T>
T normalize(T* y, const T* x, std::int64_t size, T scale) {
  const T squares = sum<T>(size, [&](std::int64_t i) { return x[i] * x[i]; });
  const T r = 1 / std::sqrt(squares + static_cast<T>(kDeltaEps));
  for (std::int64_t i = 0; i < size; ++i) y[i] = x[i] * r * scale;
  return r;
}

// Token: what a value head reads of one.
template <class T>
class Token {
 public:
  explicit Token(const DeltaShape& s)
      : q(static_cast<std::size_t>(s.key_dim)), k(q.size()), scale_(1 / std::sqrt(T(s.key_dim))) {}

  void take_keys(const Inputs<T>& in, std::int64_t token, std::int64_t key_head) {
    const DeltaShape& s = in.s;
    const T* const row = in.mixed + token * s.mixed() + key_head * s.key_dim;
    q_rstd = normalize(q.data(), row, s.key_dim, scale_);
    k_rstd = normalize(k.data(), row + s.k_of_mixed(), s.key_dim, T(1));
  }
  void take_values(const Inputs<T>& in, std::int64_t token, std::int64_t head) {
    const DeltaShape& s = in.s;
    const T* const row = in.projected + token * s.projected();
    v = in.mixed + token * s.mixed() + s.v_of_mixed() + head * s.value_dim;
    b = sigmoid(row[s.beta_of_projected() + head]);
    step = row[s.alpha_of_projected() + head] + in.dt_bias[head];
    g = -std::exp(in.a_log[head]) * softplus(step);
    a = std::exp(g);
  }
  T scale() const { return scale_; }

  std::vector<T> q, k;
  const T* v = nullptr;
  T q_rstd = 0, k_rstd = 0, a = 0, b = 0, g = 0, step = 0;

 private:
  T scale_;
};

// Makes S' of `state`, and then S; d: what is written there, [value_dim].
template <class T>
void advance(T* state, T* d, const Token<T>& token, bool begins, const DeltaShape& s) {
  const std::int64_t keys = s.key_dim, values = s.value_dim;
  const T a = begins ? T(0) : token.a;
  std::fill_n(d, values, T(0));
  for (std::int64_t i = 0; i < keys; ++i) {
    T* const row = state + i * values;
    for (std::int64_t j = 0; j < values; ++j) {
      row[j] = begins ? T(0) : row[j] * a;
      d[j] += row[j] * token.k[static_cast<std::size_t>(i)];
    }
  }
  for (std::int64_t j = 0; j < values; ++j) d[j] = token.b * (token.v[j] - d[j]);
  for (std::int64_t i = 0; i < keys; ++i)
    for (std::int64_t j = 0; j < values; ++j)
      state[i * values + j] += token.k[static_cast<std::size_t>(i)] * d[j];
}

// Calls task(sequence, key head) for all, several at a time.
template <class Task>
void for_key_heads(const DeltaShape& s, const Task& task) {
  parallel_for(s.sequences * s.key_heads,
               [&](std::int64_t i) { run([&] { task(i / s.key_heads, i % s.key_heads); }); });
}

template <class T>
void forward(T* y, const Inputs<T>& in, const DeltaStates<T>& states, std::int64_t sequence,
             std::int64_t key_head) {
  const DeltaShape& s = in.s;
  const std::int64_t heads = s.group_heads(), first_head = key_head * heads;
  std::vector<T> own(static_cast<std::size_t>(heads * s.state())),
      d(static_cast<std::size_t>(s.value_dim));
  T* const cached =
      states.cache == nullptr
          ? nullptr
          : states.cache + (states.slots.of(sequence) * s.value_heads + first_head) * s.state();
  const bool goes_on = cached != nullptr && !states.slots.begins(sequence, s.length);
  if (goes_on) std::copy_n(cached, own.size(), own.begin());
  Token<T> token(s);
  for (std::int64_t t = 0; t < s.length; ++t) {
    const std::int64_t at = sequence * s.length + t;
    const bool begins = in.begins(sequence, t) && !(t == 0 && goes_on);
    token.take_keys(in, at, key_head);
    for (std::int64_t h = 0; h < heads; ++h) {
      T* const state = own.data() + h * s.state();
      T* const out = y + at * s.values() + (first_head + h) * s.value_dim;
      token.take_values(in, at, first_head + h);
      advance(state, d.data(), token, begins, s);
      std::fill_n(out, s.value_dim, T(0));
      for (std::int64_t i = 0; i < s.key_dim; ++i)
        for (std::int64_t j = 0; j < s.value_dim; ++j)
          out[j] += state[i * s.value_dim + j] * token.q[static_cast<std::size_t>(i)];
    }
  }
  if (cached != nullptr) std::ranges::copy(own, cached);
}

// Backward: of a key head of a sequence.  sums: [2, value_heads] of the sequence.
template <class T>
class Backward {
 public:
  Backward(T* d_mixed, T* d_projected, double* sums, const T* dy, const Inputs<T>& in,
           std::int64_t sequence, std::int64_t key_head)
      : d_mixed_(d_mixed),
        d_projected_(d_projected),
        sums_(sums),
        dy_(dy),
        in_(in),
        s_(in.s),
        sequence_(sequence),
        key_head_(key_head),
        token_(s_) {}

  void run() {
    for (std::int64_t t = 0; t < s_.length; ++t) {
      std::fill_n(d_keys(t), s_.key_dim, T(0));
      std::fill_n(d_keys(t) + s_.k_of_mixed(), s_.key_dim, T(0));
    }
    for (std::int64_t h = 0; h < s_.group_heads(); ++h) run_head(key_head_ * s_.group_heads() + h);
    for (std::int64_t t = 0; t < s_.length; ++t) {
      token_.take_keys(in_, at(t), key_head_);
      const T scale = token_.scale();
      back_through_norm(d_keys(t), token_.q.data(), token_.q_rstd, scale);
      back_through_norm(d_keys(t) + s_.k_of_mixed(), token_.k.data(), token_.k_rstd, T(1));
    }
  }

 private:
  std::int64_t at(std::int64_t t) const { return sequence_ * s_.length + t; }
  T* d_keys(std::int64_t t) const { return d_mixed_ + at(t) * s_.mixed() + key_head_ * s_.key_dim; }
  T* state(std::int64_t i) { return states_.data() + i * s_.state(); }
  T* written(std::int64_t i) { return written_.data() + i * s_.value_dim; }
  void take(std::int64_t t, std::int64_t head) {
    token_.take_keys(in_, at(t), key_head_);
    token_.take_values(in_, at(t), head);
  }

  // d: the gradient of y = scale x rstd, and then that of x.
  void back_through_norm(T* d, const T* y, T rstd, T scale) const {
    const T along =
        sum<T>(s_.key_dim, [&](std::int64_t i) { return y[i] * d[i]; }) / (scale * scale);
    for (std::int64_t i = 0; i < s_.key_dim; ++i) d[i] = rstd * scale * (d[i] - y[i] * along);
  }

  void run_head(std::int64_t head) {
    const std::int64_t blocks = (s_.length + kTokens - 1) / kTokens;
    const auto size = static_cast<std::size_t>(s_.state());
    before_.assign(static_cast<std::size_t>(blocks) * size, T(0));
    states_.resize((kTokens + 1) * size);
    written_.resize(static_cast<std::size_t>(kTokens * s_.value_dim));
    d_state_.assign(size, T(0));
    dd_.resize(static_cast<std::size_t>(s_.value_dim));
    for (std::int64_t block = 0; block + 1 < blocks; ++block) {
      T* const from = before_.data() + block * s_.state();
      T* const to = std::copy_n(from, size, from + s_.state()) - s_.state();
      for (std::int64_t t = block * kTokens; t < (block + 1) * kTokens; ++t) {
        take(t, head);
        advance(to, written(0), token_, in_.begins(sequence_, t), s_);
      }
    }
    for (std::int64_t block = blocks; block-- > 0;) {
      const std::int64_t begin = block * kTokens, end = std::min(s_.length, begin + kTokens);
      std::copy_n(before_.data() + block * s_.state(), size, state(0));
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t i = t - begin;
        take(t, head);
        std::copy_n(state(i), size, state(i + 1));
        advance(state(i + 1), written(i), token_, in_.begins(sequence_, t), s_);
      }
      for (std::int64_t t = end; t-- > begin;)
        step_back(t, head, state(t - begin), state(t - begin + 1), written(t - begin));
    }
  }

  // before, after: the states; d: what was written.
  void step_back(std::int64_t t, std::int64_t head, const T* before, const T* after, const T* d) {
    const std::int64_t values = s_.value_dim;
    const T* const dy = dy_ + at(t) * s_.values() + head * values;
    T* const dv = d_mixed_ + at(t) * s_.mixed() + s_.v_of_mixed() + head * values;
    T *const dq = d_keys(t), *const dk = dq + s_.k_of_mixed();
    const bool begins = in_.begins(sequence_, t);
    take(t, head);
    const T a = begins ? T(0) : token_.a;
    std::ranges::fill(dd_, T(0));
    for (std::int64_t i = 0; i < s_.key_dim; ++i) {
      T* const ds = d_state_.data() + i * values;
      const T *const row = after + i * values, q = token_.q[static_cast<std::size_t>(i)],
                     k = token_.k[static_cast<std::size_t>(i)];
      dq[i] += sum<T>(values, [&](std::int64_t j) { return row[j] * dy[j]; });
      for (std::int64_t j = 0; j < values; ++j) {
        ds[j] += q * dy[j];
        dd_[static_cast<std::size_t>(j)] += ds[j] * k;
      }
      dk[i] += sum<T>(values, [&](std::int64_t j) { return ds[j] * d[j]; });
    }
    for (std::int64_t j = 0; j < values; ++j) dv[j] = token_.b * dd_[static_cast<std::size_t>(j)];
    // b times its gradient, as d is b times what that multiplies.
    const T b_db =
        sum<T>(values, [&](std::int64_t j) { return dd_[static_cast<std::size_t>(j)] * d[j]; });
    T dg = 0;
    for (std::int64_t i = 0; i < s_.key_dim; ++i) {
      T* const ds = d_state_.data() + i * values;
      const T* const row = before + i * values;
      const T k = token_.k[static_cast<std::size_t>(i)];
      dk[i] -= a * sum<T>(values, [&](std::int64_t j) { return begins ? T(0) : row[j] * dv[j]; });
      for (std::int64_t j = 0; j < values; ++j) ds[j] -= k * dv[j];
      dg += a * sum<T>(values, [&](std::int64_t j) { return begins ? T(0) : row[j] * ds[j]; });
      for (std::int64_t j = 0; j < values; ++j) ds[j] *= a;
    }
    T* const d_row = d_projected_ + at(t) * s_.projected();
    const T d_alpha = -dg * std::exp(in_.a_log[head]) * sigmoid(token_.step);
    d_row[s_.beta_of_projected() + head] = b_db * (1 - token_.b);
    d_row[s_.alpha_of_projected() + head] = d_alpha;
    sums_[head] += d_alpha;
    sums_[s_.value_heads + head] += static_cast<double>(dg) * token_.g;
  }

  T *d_mixed_, *d_projected_;
  double* sums_;
  const T* dy_;
  const Inputs<T>& in_;
  const DeltaShape& s_;
  std::int64_t sequence_, key_head_;
  Token<T> token_;
  std::vector<T> before_;   // states that come into each block
  std::vector<T> states_;   // of a block: before its first token, and behind each
  std::vector<T> written_;  // by each token
  std::vector<T> d_state_, dd_;
};

}  // namespace

template <class T>
void delta_rule_forward(T* y, const T* mixed, const T* projected, const T* dt_bias, const T* a_log,
                        const std::int32_t* first_key, const DeltaStates<T>& states,
                        const DeltaShape& s) {
  const Inputs<T> in{mixed, projected, dt_bias, a_log, first_key, s};
  for_key_heads(s, [&](std::int64_t sequence, std::int64_t key_head) {
    forward(y, in, states, sequence, key_head);
  });
}

template <class T>
void delta_rule_backward(T* d_mixed, T* d_projected, T* d_dt_bias, T* d_a_log, const T* dy,
                         const T* mixed, const T* projected, const T* dt_bias, const T* a_log,
                         const std::int32_t* first_key, const DeltaShape& s) {
  const Inputs<T> in{mixed, projected, dt_bias, a_log, first_key, s};
  const std::int64_t of_sequence = 2 * s.value_heads;
  std::vector<double> sums(static_cast<std::size_t>(s.sequences * of_sequence));
  for_key_heads(s, [&](std::int64_t sequence, std::int64_t key_head) {
    Backward<T>(d_mixed, d_projected, sums.data() + sequence * of_sequence, dy, in, sequence,
                key_head)
        .run();
  });
  for (std::int64_t i = 0; i < s.sequences; ++i)
    for (std::int64_t h = 0; h < s.value_heads; ++h) {
      const double* const of = sums.data() + i * of_sequence;
      d_dt_bias[h] += static_cast<T>(of[h]);
      d_a_log[h] += static_cast<T>(of[s.value_heads + h]);
    }
}

#define INSTANTIATE(T)                                                                             \
  template void delta_rule_forward(T*, const T*, const T*, const T*, const T*,                     \
                                   const std::int32_t*, const DeltaStates<T>&, const DeltaShape&); \
  template void delta_rule_backward(T*, T*, T*, T*, const T*, const T*, const T*, const T*,        \
                                    const T*, const std::int32_t*, const DeltaShape&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace mt::cpu
