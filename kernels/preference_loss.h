// kernels/preference_loss.h: losses of pairs of which people prefer the first, chosen, to the
// second, rejected.  x is what a model says of the two: the sum l of the log-probabilities of a
// text's n tokens that count, or a reward.
//   rho = l - reference     D = f(rho_c) - f(rho_r)     f: the divergence, rho itself of reverse_kl
// clang-format off
//   sigmoid           -log s(beta D)                                (arXiv:2305.18290, eq. 7)
//   hinge             max(0, 1 - beta D)
//   ipo               (f_c / n_c - f_r / n_r - 1 / (2 beta))^2      (arXiv:2310.12036, eq. 17)
//   robust            (-(1 - e) log s(beta D) + e log s(-beta D)) / (1 - 2 e)
//                                                                   (arXiv:2403.00409)
//   exo_pair          s(beta D) (log s(beta D) - log(1 - e)) + s(-beta D) (log s(-beta D) - log e)
//                                                                   (arXiv:2402.00856, eq. 16)
//   nca_pair          -log s(beta rho_c) - (log s(-beta rho_c) + log s(-beta rho_r)) / 2
//   bco_pair          -log s(beta rho_c) - log s(-beta rho_r)
//   sppo_hard         (rho_c - 1 / (2 beta))^2 + (rho_r + 1 / (2 beta))^2
//                                                                   (arXiv:2405.00675)
//   apo_zero          1 - s(beta rho_c) + s(beta rho_r)             (arXiv:2408.06266, eq. 7)
//   apo_down          s(beta rho_c) + 1 - s(beta (rho_c - rho_r))   (arXiv:2408.06266, eq. 8)
//   sigmoid_norm      -log s(beta (f_c / n_c - f_r / n_r))
//   discopop          -(1 - m) log s(beta D) + m exp(-beta D), m = s(beta D / tau)
//                                                                   (arXiv:2406.08414)
//   sft               -l_c / n_c
//   simpo             -log s(beta (l_c / n_c - l_r / n_r) - gamma)  (arXiv:2405.14734)
//   orpo              -l_c / n_c - beta log s(o_c - o_r), o = a - log(1 - exp(a)), a = l / n
//                                                                   (arXiv:2403.07691)
//   bradley_terry     -log s(x_c - x_r - value) + center (x_c + x_r)^2
// and of single texts, whose value is 1 where they are wanted and 0 where they are not, beside a
// text of the same prompt with another's completion:
//   kto               desirable (1 - s(beta (rho - z))) or undesirable (1 - s(beta (z - rho)))
//                                                                   (arXiv:2402.01306, eq. 7)
//                     z = max(0, mean over the others of their rho), a constant
//   apo_zero_unpaired desirable (1 - s(beta rho)) or undesirable s(beta rho)
// clang-format on
// where s is the logistic function and e is `smoothing`.  A run's loss is a weighted sum of some.
//   loss: [kPreferenceRows, units]: the loss; the reward of the chosen and of the rejected, which
//         is beta rho, beta l / n of simpo and orpo, x itself of bradley_terry; 1 where the first
//         is the larger; by how much it is.  Of single texts: the reward where it is wanted, where
//         it is not, z, and 0.
//   x: [units, 2]; with `weight`, [units], it becomes weight[u] d loss[u] / d x[u]
//   tokens, reference: [units, 2], null: 1 and 0;  values: [units], null: 0
//   share: [units], 0 where there is no unit: its rows are 0
// Units are few; all is computed in f64.  T: float or double; on the GPU x is float, bf16 or fp16,
// all else float.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {

enum class Preference : std::uint8_t {
  sigmoid,
  hinge,
  ipo,
  robust,
  exo_pair,
  nca_pair,
  bco_pair,
  sppo_hard,
  apo_zero,
  apo_down,
  sigmoid_norm,
  discopop,
  sft,
  simpo,
  orpo,
  bradley_terry,
  kto,
  apo_zero_unpaired
};
enum class Divergence : std::uint8_t { reverse_kl, forward_kl, js_divergence, alpha_divergence };

inline constexpr int kPreferenceRows = 5, kMostPreferences = 4;

struct PreferenceRules {
  struct Weighted {
    Preference kind = Preference::sigmoid;
    double weight = 1;
  };
  Weighted losses[kMostPreferences] = {};
  int count = 1;
  double beta = 0.1, gamma = 0.5, smoothing = 0, tau = 0.05, center = 0;
  double desirable = 1, undesirable = 1;
  Divergence divergence = Divergence::reverse_kl;
  double alpha = 1;  // of alpha_divergence

  constexpr bool has_single_texts() const { return losses[0].kind >= Preference::kto; }
};

// PreferenceUnit: the two numbers, and all else that a loss of them depends on.
template <class T>
struct PreferenceUnit {
  T x[2] = {}, reference[2] = {}, tokens[2] = {1, 1}, value = 0, z = 0;
};

// Slope: a number, and by how much it changes with each of the two that it is made of.
template <class T>
struct Slope {
  T v = 0, d[2] = {};

  // A function of this one, by its value and its derivative there.
  constexpr Slope through(T value, T derivative) const {
    return {value, {derivative * d[0], derivative * d[1]}};
  }
  friend constexpr Slope operator+(const Slope& a, const Slope& b) {
    return {a.v + b.v, {a.d[0] + b.d[0], a.d[1] + b.d[1]}};
  }
  friend constexpr Slope operator*(T k, const Slope& a) { return a.through(k * a.v, k); }
  friend constexpr Slope operator*(const Slope& a, const Slope& b) {
    return {a.v * b.v, {a.v * b.d[0] + b.v * a.d[0], a.v * b.d[1] + b.v * a.d[1]}};
  }
  friend constexpr Slope operator-(const Slope& a, const Slope& b) { return a + T(-1) * b; }
  friend constexpr Slope operator+(const Slope& a, T k) { return a + Slope{k}; }
  friend constexpr Slope operator-(const Slope& a, T k) { return a + Slope{-k}; }
};

template <class T>
constexpr T logistic_of(T x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
template <class T>
constexpr Slope<T> logistic(const Slope<T>& x) {
  return x.through(logistic_of(x.v), logistic_of(x.v) * logistic_of(-x.v));
}
template <class T>
constexpr Slope<T> log_logistic(const Slope<T>& x) {
  const T value = (x.v < 0 ? x.v : T(0)) - std::log1p(std::exp(x.v < 0 ? x.v : -x.v));
  return x.through(value, logistic_of(-x.v));
}
template <class T>
constexpr Slope<T> exp_of(const Slope<T>& x) {
  return x.through(std::exp(x.v), std::exp(x.v));
}
// The logarithm of the odds of what has probability exp(x).
template <class T>
constexpr Slope<T> log_odds(const Slope<T>& x) {
  return x.through(x.v - std::log(-std::expm1(x.v)), -1 / std::expm1(x.v));
}

template <class T>
constexpr Slope<T> score_of(const Slope<T>& rho, const PreferenceRules& rules) {
  constexpr T kMost = 80;  // whose exponential is a float
  const T k = T(rules.alpha) - 1;
  switch (rules.divergence) {
    case Divergence::forward_kl:
      return T(-1) * exp_of(T(-1) * rho) + T(1);
    case Divergence::js_divergence:
      return log_logistic(rho) + std::log(T(2));
    case Divergence::alpha_divergence:
      if (k > T(-1e-6) && k < T(1e-6)) return rho;
      return (1 / k) * (exp_of(k * rho.v > kMost ? Slope<T>{kMost} : k * rho) - T(1));
    case Divergence::reverse_kl:
      break;
  }
  return rho;
}

template <class T>
constexpr Slope<T> preference_loss(Preference kind, const PreferenceRules& rules,
                                   const PreferenceUnit<T>& u) {
  using S = Slope<T>;
  const T beta = T(rules.beta), e = T(rules.smoothing), tau = T(rules.tau);
  const S l_c{u.x[0], {1, 0}}, l_r{u.x[1], {0, 1}};
  const S rho_c = l_c - u.reference[0], rho_r = l_r - u.reference[1];
  const S f_c = score_of(rho_c, rules), f_r = score_of(rho_r, rules);
  const S per_token = (1 / u.tokens[0]) * f_c - (1 / u.tokens[1]) * f_r;
  const S a_c = (1 / u.tokens[0]) * l_c, a_r = (1 / u.tokens[1]) * l_r;
  const S b = beta * (f_c - f_r), not_b = T(-1) * b;
  const auto square = [](const S& x) { return x * x; };
  switch (kind) {
    case Preference::sigmoid:
      return T(-1) * log_logistic(b);
    case Preference::hinge:
      return b.v < 1 ? T(-1) * b + T(1) : S{};
    case Preference::ipo:
      return square(per_token - 1 / (2 * beta));
    case Preference::robust:
      return (1 / (1 - 2 * e)) * (e * log_logistic(not_b) - (1 - e) * log_logistic(b));
    case Preference::exo_pair:
      return logistic(b) * (log_logistic(b) - std::log1p(-e)) +
             logistic(not_b) * (log_logistic(not_b) - std::log(e));
    case Preference::nca_pair:
      return T(-1) * log_logistic(beta * rho_c) -
             T(0.5) * (log_logistic(-beta * rho_c) + log_logistic(-beta * rho_r));
    case Preference::bco_pair:
      return T(-1) * (log_logistic(beta * rho_c) + log_logistic(-beta * rho_r));
    case Preference::sppo_hard:
      return square(rho_c - 1 / (2 * beta)) + square(rho_r + 1 / (2 * beta));
    case Preference::apo_zero:
      return logistic(beta * rho_r) - logistic(beta * rho_c) + T(1);
    case Preference::apo_down:
      return logistic(beta * rho_c) - logistic(beta * (rho_c - rho_r)) + T(1);
    case Preference::sigmoid_norm:
      return T(-1) * log_logistic(beta * per_token);
    case Preference::discopop: {
      const S m = logistic((1 / tau) * b);
      return m * exp_of(not_b) - (T(-1) * m + T(1)) * log_logistic(b);
    }
    case Preference::sft:
      return T(-1) * a_c;
    case Preference::simpo:
      return T(-1) * log_logistic(beta * (a_c - a_r) - T(rules.gamma));
    case Preference::orpo:
      return T(-1) * (a_c + beta * log_logistic(log_odds(a_c) - log_odds(a_r)));
    case Preference::bradley_terry:
      return T(rules.center) * square(l_c + l_r) - log_logistic(l_c - l_r - u.value);
    case Preference::kto:
      return u.value > 0 ? T(rules.desirable) * logistic(beta * (T(-1) * rho_c + u.z))
                         : T(rules.undesirable) * logistic(beta * (rho_c - u.z));
    case Preference::apo_zero_unpaired:
      return u.value > 0 ? T(rules.desirable) * logistic(-beta * rho_c)
                         : T(rules.undesirable) * logistic(beta * rho_c);
  }
  return S{};
}

// The sum of all of a run's losses.
template <class T>
constexpr Slope<T> preference_loss(const PreferenceRules& rules, const PreferenceUnit<T>& unit) {
  Slope<T> sum;
  for (int i = 0; i < rules.count; ++i)
    sum = sum + T(rules.losses[i].weight) * preference_loss(rules.losses[i].kind, rules, unit);
  return sum;
}

// The reward of one of the two, by which a run is told of.
template <class T>
constexpr T reward_of(const PreferenceRules& rules, const PreferenceUnit<T>& u, int side) {
  switch (rules.losses[0].kind) {
    case Preference::bradley_terry:
      return u.x[side];
    case Preference::simpo:
    case Preference::orpo:
      return T(rules.beta) * u.x[side] / u.tokens[side];
    default:
      return T(rules.beta) * (u.x[side] - u.reference[side]);
  }
}

// Where the numbers of units lie.
template <class X, class T>
struct PreferenceTensors {
  T* loss = nullptr;
  X* x = nullptr;
  const T *tokens = nullptr, *reference = nullptr, *values = nullptr, *share = nullptr;
  const T* weight = nullptr;
  std::int64_t units = 0;

  constexpr PreferenceUnit<double> unit(std::int64_t i, double z) const {
    PreferenceUnit<double> u;
    for (int side = 0; side < 2; ++side) {
      u.x[side] = static_cast<double>(static_cast<T>(x[2 * i + side]));
      if (tokens) u.tokens[side] = static_cast<double>(tokens[2 * i + side]);
      if (reference) u.reference[side] = static_cast<double>(reference[2 * i + side]);
    }
    if (values) u.value = static_cast<double>(values[i]);
    u.z = z;
    return u;
  }

  // For single texts, z is the mean of a sum: this is what the other text of unit i adds to it.
  constexpr double rho_of_other(std::int64_t i) const {
    const PreferenceUnit<double> u = unit(i, 0);
    return share[i] > 0 ? u.x[1] - u.reference[1] : 0;
  }

  constexpr void judge(std::int64_t i, const PreferenceRules& rules, double z) const {
    const bool is_there = share[i] > 0;
    const PreferenceUnit<double> u = is_there ? unit(i, z) : PreferenceUnit<double>();
    const Slope<double> sum = is_there ? preference_loss(rules, u) : Slope<double>();
    const double chosen = is_there ? reward_of(rules, u, 0) : 0,
                 rejected = is_there ? reward_of(rules, u, 1) : 0;
    const bool single = rules.has_single_texts(), wanted = u.value > 0;
    const double rows[kPreferenceRows] = {sum.v, single && !wanted ? 0 : chosen,
                                          !single  ? rejected
                                          : wanted ? 0
                                                   : chosen,
                                          single ? u.z : (chosen > rejected ? 1.0 : 0.0),
                                          single ? 0 : chosen - rejected};
    for (int row = 0; row < kPreferenceRows; ++row)
      loss[row * units + i] = static_cast<T>(rows[row]);
    for (int side = 0; weight && side < 2; ++side)
      x[2 * i + side] =
          static_cast<X>(static_cast<T>(static_cast<double>(weight[i]) * sum.d[side]));
  }
};

}  // namespace mt

namespace mt::cpu {
template <class T>
void preference_loss(const PreferenceTensors<T, T>& tensors, const PreferenceRules& rules);
}  // namespace mt::cpu

namespace mt::cuda {
template <class X>
void preference_loss(const PreferenceTensors<X, float>& tensors, const PreferenceRules& rules,
                     cudaStream_t stream);
}  // namespace mt::cuda
