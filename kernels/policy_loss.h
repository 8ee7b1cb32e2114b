// kernels/policy_loss.h: losses of texts that a policy wrote and that were rewarded, token by
// token.
//   p = log-probability of the token, r = exp(p - old), old: when the text was written
//   A = its advantage       w = exp(old - generated), where the generator was another
// clang-format off
//   clipped  -min(min(r, delta) A, clip(r, 1 - low, 1 + high) A)      (arXiv:1707.06347, eq. 7)
//            and where A < 0 at most -dual A                          (arXiv:1912.09729, eq. 5)
//   cispo    -min(r, high) A p, the factor a constant                 (arXiv:2506.13585, eq. 4)
//   sapo     -4 s(tau (r - 1)) / tau A, tau by the sign of A          (arXiv:2511.20347, eq. 6)
//   reinforce  -A p                                                   (Williams 1992, eq. 4)
//   vespo    -phi A p, phi = exp(lambda) R^k exp(-lambda R), R = exp(sum of p - old), a constant;
//            k and lambda by the sign of A                            (TRL 1.16's get_gamma_weights)
// With of_texts, which is not for vespo, p - old is its mean over the text (arXiv:2507.18071, eq. 7),
// or its sum (arXiv:2402.14740, 3.1), with a gradient to all of them.  To w l are added, x being
// reference - p, no further from 0 than kl.most_log_ratio:
//   beta K v, no further from 0 than beta kl.most, with K
//           k1 -x, k2 x^2 / 2, k3 exp(x) - 1 - x                      (joschu.net/blog/kl-approx.html)
//           and v so that the gradient is the divergence's: r; or exp(p - generated); or 1, of which
//           the gradient is that of p; or v is the constant 1
//   entropy exp(p) p, of the token that was taken                     (Megatron-LM's GRPO)
// clang-format on
// where s is the logistic function.  w is 1, or truncated to [low, high], or 0 where it is outside.
//   x: [tokens], -p; with `weight`, [tokens], it becomes weight[t] d loss[t] / d x[t], summed over
//      the losses that depend on it
//   loss: [kPolicyRows, tokens]: the loss; K; r; 1 where r was clipped below; and above; p; all 0
//         where the mask is
//   others: [rows, 3, tokens of a row]: old, reference, generated; kUnknown: none is known, it is
//   p,
//         a constant
//   advantage, mask: [tokens];  lengths: of texts, as in kernels/text_sums.h
// All is computed in f64.  T: float or double; on the GPU float.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/text_sums.h"

namespace mt {

enum class PolicyLoss : std::uint8_t { clipped, cispo, sapo, reinforce, vespo };
enum class RatioOf : std::uint8_t { tokens, mean_of_text, text };
enum class KlEstimate : std::uint8_t { k1, k2, k3 };
enum class KlWeight : std::uint8_t { ratio, none, one, generated };
enum class Correction : std::uint8_t { none, truncated, dropped };

inline constexpr int kPolicyRows = 6;
inline constexpr float kUnknown = 1;  // no logarithm of a probability

struct KlRules {
  KlEstimate estimate = KlEstimate::k3;
  KlWeight weight = KlWeight::ratio;
  double most_log_ratio = 0, most = 0;  // 0: any
};

struct PolicyRules {
  PolicyLoss loss = PolicyLoss::clipped;
  RatioOf ratio_of = RatioOf::tokens;
  double low = 0.2, high = 0.2;
  double delta = 0, dual = 0;                // 0: none
  double tau[2] = {1, 1.05};                 // A > 0, else
  double k[2] = {2, 3}, lambda[2] = {3, 2};  // A >= 0, else
  double beta = 0, entropy = 0;
  bool tells_kl = false;  // K is told though beta is 0, as it counts elsewhere
  KlRules kl = {};
  Correction correction = Correction::none;
  double correction_low = 0, correction_high = 1e30;

  constexpr bool of_texts() const { return ratio_of != RatioOf::tokens; }
  constexpr bool needs_texts() const { return of_texts() || loss == PolicyLoss::vespo; }
};

// PolicyToken: all that the loss of a token depends on.
struct PolicyToken {
  double p = 0, log_ratio = 0, reference = 0, generated = 0, advantage = 0, weight = 1, phi = 1;
};

// PolicyStep: its loss, by how much that changes with log_ratio and with p otherwise, and what is
// told of it.
struct PolicyStep {
  double loss = 0, by_ratio = 0, by_p = 0;
  double kl = 0, ratio = 0;
  bool clipped_low = false, clipped_high = false;
};

constexpr double clamped(double x, double low, double high) {
  return x < low ? low : x > high ? high : x;
}

// KlStep: an estimate of the divergence, K, and by how much it changes with p.
struct KlStep {
  double value = 0, by_p = 0;
  bool is_bounded = false;  // reference - p is not x
};

constexpr KlStep kl_step(double p, double reference, const KlRules& rules) {
  const double whole = reference - p, most = rules.most_log_ratio;
  const double x = most > 0 ? clamped(whole, -most, most) : whole;
  KlStep step{.value = -x, .by_p = 1, .is_bounded = x != whole};
  if (rules.estimate == KlEstimate::k2) step = {x * x / 2, -x, step.is_bounded};
  if (rules.estimate == KlEstimate::k3) step = {std::expm1(x) - x, -std::expm1(x), step.is_bounded};
  if (step.is_bounded) step.by_p = 0;
  return step;
}

// Returns what a token adds to the divergence of its text, where that is a part of what the text is
// worth.
constexpr double kl_of(double p, double reference, const KlRules& rules) {
  const double kl = kl_step(p, reference, rules).value;
  return rules.most > 0 ? clamped(kl, -rules.most, rules.most) : kl;
}

constexpr void add_kl(PolicyStep& step, const PolicyToken& t, const PolicyRules& rules) {
  const KlStep kl = kl_step(t.p, t.reference, rules.kl);
  double weight = 1, by_p = 0;  // of the weight
  if (rules.kl.weight == KlWeight::ratio) weight = step.ratio;
  if (rules.kl.weight == KlWeight::generated) weight = by_p = std::exp(t.p - t.generated);
  if (rules.kl.weight == KlWeight::one) by_p = 1;
  if (!(weight < 1e30)) weight = by_p = 0;
  step.kl = kl.value * weight;
  const double most = rules.kl.most;
  const double inside = most > 0 ? clamped(step.kl, -most, most) : step.kl;
  const bool is_inside = inside == step.kl;
  step.kl = inside;
  if (rules.beta == 0) return;
  step.loss += rules.beta * inside;
  if (is_inside) {
    step.by_p += rules.beta * weight * kl.by_p;
    if (!kl.is_bounded) step.by_p += rules.beta * by_p * kl.value;
    if (!kl.is_bounded && rules.kl.weight == KlWeight::ratio) step.by_ratio += rules.beta * inside;
  }
}

constexpr void add_clipped(PolicyStep& step, const PolicyToken& t, const PolicyRules& rules) {
  const double low = 1 - rules.low, high = 1 + rules.high;
  const double whole = rules.delta > 0 ? clamped(step.ratio, 0, rules.delta) : step.ratio;
  const double inside = clamped(step.ratio, low, high);
  const bool takes_whole = whole * t.advantage <= inside * t.advantage;
  const double factor = takes_whole ? whole : inside;
  step.loss = -factor * t.advantage;
  step.by_ratio = factor == step.ratio ? step.loss : 0;
  if (rules.dual > 0 && t.advantage < 0 && step.loss > -t.advantage * rules.dual) {
    step.loss = -t.advantage * rules.dual;
    step.by_ratio = 0;
  }
  step.clipped_low = whole < low && t.advantage < 0;
  step.clipped_high = whole > high && t.advantage > 0;
}

constexpr PolicyStep policy_step(const PolicyToken& t, const PolicyRules& rules) {
  PolicyStep step;
  step.ratio = std::exp(t.log_ratio);
  const auto of_constant = [&](double factor) {
    step.by_p = -factor * t.advantage;
    step.loss = step.by_p * t.p;
  };
  switch (rules.loss) {
    case PolicyLoss::clipped:
      add_clipped(step, t, rules);
      break;
    case PolicyLoss::cispo:
      of_constant(clamped(step.ratio, 0, rules.high));
      step.clipped_high = step.ratio > rules.high && t.advantage > 0;
      break;
    case PolicyLoss::sapo: {
      const double tau = rules.tau[t.advantage > 0 ? 0 : 1];
      const double s = 1 / (1 + std::exp(tau * (1 - step.ratio)));
      step.loss = -4 * s / tau * t.advantage;
      step.by_ratio = -4 * s * (1 - s) * step.ratio * t.advantage;
      break;
    }
    case PolicyLoss::reinforce:
      of_constant(1);
      break;
    case PolicyLoss::vespo:
      of_constant(t.phi);
      break;
  }
  const double weight = rules.loss == PolicyLoss::vespo ? 1 : t.weight;
  step.loss *= weight;
  step.by_ratio *= weight;
  step.by_p *= weight;
  if (rules.beta > 0 || rules.tells_kl) add_kl(step, t, rules);
  if (rules.entropy > 0) {
    step.loss += rules.entropy * std::exp(t.p) * t.p;
    step.by_p += rules.entropy * std::exp(t.p) * (t.p + 1);
  }
  return step;
}

// Where the numbers of tokens lie.
template <class T>
struct PolicyTensors {
  T *loss = nullptr, *x = nullptr;
  const T *others = nullptr, *advantage = nullptr, *mask = nullptr, *weight = nullptr;
  TextRows rows;

  constexpr double p(std::int64_t i) const { return -static_cast<double>(x[i]); }
  constexpr T known(std::int64_t i, int which) const {
    const std::int64_t row = i / rows.tokens;
    return others[(3 * row + which) * rows.tokens + i - row * rows.tokens];
  }
  constexpr double other(std::int64_t i, int which) const {
    const T other = known(i, which);
    return other == T(kUnknown) ? p(i) : static_cast<double>(other);
  }
  constexpr double log_ratio(std::int64_t i) const { return p(i) - other(i, 0); }
  constexpr double weight_of(std::int64_t i, const PolicyRules& rules) const {
    if (rules.correction == Correction::none || known(i, 2) == T(kUnknown)) return 1;
    const double w = std::exp(other(i, 0) - other(i, 2));
    if (!(w < 1e30)) return 0;
    const double inside = clamped(w, rules.correction_low, rules.correction_high);
    return rules.correction == Correction::truncated || inside == w ? inside : 0;
  }
  // What token i adds to its text's sum of p - old; vespo's has bounds.
  constexpr double in_sum(std::int64_t i, const PolicyRules& rules) const {
    if (mask[i] == 0) return 0;
    if (rules.loss != PolicyLoss::vespo) return log_ratio(i);
    const double w = weight_of(i, rules);
    return clamped(log_ratio(i), -20, 20) + std::log(w > 1e-8 ? w : 1e-8);
  }

  // Judges token i of a text with this sum over so many tokens; returns by how much the objective
  // changes with its log_ratio, which x does not hold yet where the ratio is the text's.
  constexpr double judge(std::int64_t i, const PolicyRules& rules, double sum, double count) const {
    PolicyStep step;
    if (mask[i] != 0) {
      PolicyToken t{.p = p(i),
                    .log_ratio = rules.ratio_of == RatioOf::tokens         ? log_ratio(i)
                                 : rules.ratio_of == RatioOf::mean_of_text ? sum / count
                                                                           : sum,
                    .reference = other(i, 1),
                    .generated = other(i, 2),
                    .advantage = static_cast<double>(advantage[i]),
                    .weight = weight_of(i, rules)};
      if (rules.loss == PolicyLoss::vespo) {
        const int side = t.advantage >= 0 ? 0 : 1;
        const double all = clamped(sum, -18.420680743952367, 20);  // log 1e-8
        t.phi =
            std::exp(rules.lambda[side] + rules.k[side] * all - rules.lambda[side] * std::exp(all));
      }
      step = policy_step(t, rules);
    }
    const std::int64_t tokens = rows.rows * rows.tokens;
    const double told[kPolicyRows] = {step.loss,
                                      step.kl,
                                      step.ratio,
                                      step.clipped_low ? 1.0 : 0.0,
                                      step.clipped_high ? 1.0 : 0.0,
                                      mask[i] != 0 ? p(i) : 0};
    for (int row = 0; row < kPolicyRows; ++row) loss[row * tokens + i] = static_cast<T>(told[row]);
    if (!weight) return 0;
    const double each = static_cast<double>(weight[i]);
    x[i] = static_cast<T>(-each * (step.by_p + (rules.of_texts() ? 0 : step.by_ratio)));
    return rules.of_texts() ? each * step.by_ratio : 0;
  }
  // The tokens of a text share what the objective changes by with their mean or sum.
  constexpr void share(std::int64_t i, const PolicyRules& rules, double slope, double count) const {
    const double each = rules.ratio_of == RatioOf::mean_of_text ? slope / count : slope;
    if (mask[i] != 0) x[i] -= static_cast<T>(each);
  }
  // A token of no text.
  constexpr void clear(std::int64_t i) const {
    for (int row = 0; row < kPolicyRows; ++row) loss[row * rows.rows * rows.tokens + i] = 0;
    if (weight) x[i] = 0;
  }
};

}  // namespace mt

namespace mt::cpu {
template <class T>
void policy_loss(const PolicyTensors<T>& tensors, const PolicyRules& rules);
}  // namespace mt::cpu

namespace mt::cuda {
void policy_loss(const PolicyTensors<float>& tensors, const PolicyRules& rules,
                 cudaStream_t stream);
}  // namespace mt::cuda
