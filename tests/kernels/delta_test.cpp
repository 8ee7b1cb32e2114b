// The gated delta rule, the norm and the gates behind it and behind attention: against products of
// matrices, and their gradients.
#include <algorithm>
#include <cmath>

#include "kernels/causal_conv.h"
#include "kernels/delta_norm.h"
#include "kernels/delta_rule.h"
#include "kernels/output_gate.h"
#include "tests/kernels/check.h"

namespace mt {
namespace {

using Doubles = std::vector<double>;

template <class T>
struct Rule {
  DeltaShape s;
  std::vector<T> projected, mixed, dt_bias, a_log;
  std::vector<std::int32_t> first_key;  // empty: no documents

  // document: tokens of one; 0: a sequence is one, and there is no first_key.
  explicit Rule(const DeltaShape& shape, std::int64_t document = 0) : s(shape) {
    projected = check::random<T>(s.tokens() * s.projected(), 11);
    mixed = check::random<T>(s.tokens() * s.mixed(), 12);
    dt_bias = check::random<T>(s.value_heads, 13, -3, 0);
    a_log = check::random<T>(s.value_heads, 14, -2, 1);
    for (std::int64_t i = 0; document > 0 && i < s.tokens(); ++i)
      first_key.push_back(static_cast<std::int32_t>(i % s.length / document * document));
  }
  const std::int32_t* keys() const { return first_key.empty() ? nullptr : first_key.data(); }
  std::vector<T> run(const DeltaStates<T>& states = {}) const {
    std::vector<T> y(static_cast<std::size_t>(s.tokens() * s.values()));
    cpu::delta_rule_forward(y.data(), mixed.data(), projected.data(), dt_bias.data(), a_log.data(),
                            keys(), states, s);
    return y;
  }
};

// The state times a (I - b k k^T), and b k v^T more, of unit vectors (arXiv:2412.06464, eq. 10).
Doubles by_matrices(const Rule<double>& r) {
  const DeltaShape& s = r.s;
  const auto keys = static_cast<std::size_t>(s.key_dim),
             values = static_cast<std::size_t>(s.value_dim);
  const auto unit = [&](const double* x) {
    Doubles y(x, x + keys);
    const double length = std::sqrt(check::dot(y, y) + 1e-6);
    for (double& one : y) one /= length;
    return y;
  };
  Doubles y;
  for (std::int64_t i = 0; i < s.sequences; ++i) {
    Doubles states(static_cast<std::size_t>(s.value_heads) * keys * values);
    for (std::int64_t t = 0; t < s.length; ++t) {
      const std::int64_t token = i * s.length + t;
      const double *const mixed = r.mixed.data() + token * s.mixed(), *const end =
                                                                          r.projected.data() +
                                                                          token * s.projected() +
                                                                          s.beta_of_projected();
      if (r.keys() != nullptr && r.keys()[token] == t) std::ranges::fill(states, 0.0);
      for (std::int64_t h = 0; h < s.value_heads; ++h) {
        const std::int64_t key_head = h * s.key_heads / s.value_heads;
        const Doubles q = unit(mixed + key_head * s.key_dim),
                      k = unit(mixed + s.k_of_mixed() + key_head * s.key_dim);
        const double *const v = mixed + s.v_of_mixed() + h * s.value_dim,
                            b = 1 / (1 + std::exp(-end[h])),
                            step = std::log1p(std::exp(end[s.value_heads + h] +
                                                       r.dt_bias[static_cast<std::size_t>(h)])),
                            a = std::exp(-std::exp(r.a_log[static_cast<std::size_t>(h)]) * step);
        double* const state = states.data() + h * s.state();
        Doubles next(keys * values), out(values);
        for (std::size_t m = 0; m < keys; ++m)
          for (std::size_t j = 0; j < values; ++j) {
            next[m * values + j] = b * k[m] * v[j];
            for (std::size_t n = 0; n < keys; ++n)
              next[m * values + j] += a * ((m == n) - b * k[m] * k[n]) * state[n * values + j];
          }
        std::ranges::copy(next, state);
        for (std::size_t m = 0; m < keys; ++m)
          for (std::size_t j = 0; j < values; ++j)
            out[j] += q[m] * next[m * values + j] / std::sqrt(static_cast<double>(keys));
        y.insert(y.end(), out.begin(), out.end());
      }
    }
  }
  return y;
}

constexpr DeltaShape kShape{
    .sequences = 2, .length = 71, .key_heads = 3, .value_heads = 6, .key_dim = 5, .value_dim = 7};

TEST(DeltaRule, IsThatOfMatrices) {
  for (const std::int64_t document : {0, 9, 1}) {
    const Rule<double> rule(kShape, document);
    EXPECT_TRUE(check::near(rule.run(), by_matrices(rule), 1e-12)) << document;
  }
}

TEST(DeltaRule, OfFloatsIsNearThatOfDoubles) {
  const Rule<float> floats({.sequences = 1,
                            .length = 200,
                            .key_heads = 2,
                            .value_heads = 2,
                            .key_dim = 32,
                            .value_dim = 16});
  Rule<double> doubles(floats.s);
  doubles.projected = check::convert<double>(floats.projected);
  doubles.mixed = check::convert<double>(floats.mixed);
  doubles.dt_bias = check::convert<double>(floats.dt_bias);
  doubles.a_log = check::convert<double>(floats.a_log);
  EXPECT_TRUE(check::near(floats.run(), doubles.run(), 2e-6));
  check::expect_same_on_any_threads([&] { return floats.run(); });
}

// Sequences of several blocks of the backward.
TEST(DeltaRule, Gradients) {
  for (const std::int64_t document : {0, 9}) {
    Rule<double> r(kShape, document);
    const DeltaShape& s = r.s;
    const Doubles dy = check::random<double>(s.tokens() * s.values(), 90);
    Doubles d_mixed(r.mixed.size()), d_projected(r.projected.size()),
        d_dt_bias(r.dt_bias.size(), 0.25), d_a_log(r.a_log.size(), 0.25);
    const auto backward = [&] {
      cpu::delta_rule_backward(d_mixed.data(), d_projected.data(), d_dt_bias.data(), d_a_log.data(),
                               dy.data(), r.mixed.data(), r.projected.data(), r.dt_bias.data(),
                               r.a_log.data(), r.keys(), s);
      return d_mixed;
    };
    backward();
    for (Doubles* const sums : {&d_dt_bias, &d_a_log})
      for (double& sum : *sums) sum -= 0.25;
    const auto by = [&](const Doubles& gradient, Doubles& value, unsigned seed) {
      const Doubles start = value;
      check::expect_gradient(
          gradient,
          [&](const Doubles& at) {
            value = at;
            return check::dot(r.run(), dy);
          },
          start, seed);
      value = start;
    };
    by(d_mixed, r.mixed, 91);
    by(d_projected, r.projected, 92);  // zero but for beta and alpha
    by(d_dt_bias, r.dt_bias, 93);
    by(d_a_log, r.a_log, 94);
    check::expect_same_on_any_threads(backward);
  }
}

// What a token of a document reads is none of what was before it.
TEST(DeltaRule, DocumentsAreSequences) {
  Rule<double> whole({.sequences = 1,
                      .length = 24,
                      .key_heads = 1,
                      .value_heads = 2,
                      .key_dim = 4,
                      .value_dim = 3},
                     8);
  Rule<double> parts = whole;
  parts.s.sequences = 3;
  parts.s.length = 8;
  parts.first_key.clear();
  EXPECT_TRUE(check::same_bits(whole.run(), parts.run()));
}

// In pieces, whose states lie in some slots of a cache between them, sequences give the bits that
// they give whole; what lay in their slots before does not matter, and the others stay as they are.
TEST(DeltaRule, SequencesGoOnInPieces) {
  const DeltaShape s{.sequences = 2,
                     .length = 11,
                     .key_heads = 2,
                     .value_heads = 4,
                     .key_dim = 3,
                     .value_dim = 5,
                     .taps = 3};
  const Rule<double> whole(s);
  const Doubles w = check::random<double>(s.mixed() * s.taps, 15);
  const auto convolve = [&](const Rule<double>& rule, double* cache, const CacheSlots& slots) {
    Doubles to(static_cast<std::size_t>(rule.s.tokens() * s.mixed()));
    cpu::causal_conv_forward(to.data(), cache, rule.projected.data(), w.data(),
                             static_cast<double*>(nullptr), rule.keys(), slots, rule.s);
    return to;
  };
  const auto rows = [&](const Doubles& all, std::int64_t begin, std::int64_t length) {
    const std::int64_t width = std::ssize(all) / s.tokens();
    Doubles some;
    for (std::int64_t i = 0; i < s.sequences; ++i) {
      const auto first = all.begin() + (i * s.length + begin) * width;
      some.insert(some.end(), first, first + length * width);
    }
    return some;
  };
  Rule<double> mixed = whole;
  mixed.mixed = convolve(whole, nullptr, {});
  const Doubles y = mixed.run();
  Doubles conv_cache(static_cast<std::size_t>(4 * 2 * s.mixed()), 9.0),
      states(static_cast<std::size_t>(4 * s.value_heads * s.state()), 9.0);
  const std::vector<std::int32_t> slots = {3, 1};
  std::int64_t begin = 0;
  for (const std::int64_t length : {1, 5, 2, 1, 2}) {
    Rule<double> piece = whole;
    piece.s.length = length;
    piece.projected = rows(whole.projected, begin, length);
    std::vector<std::int32_t> positions;
    for (std::int64_t i = 0; i < 2 * length; ++i)
      positions.push_back(static_cast<std::int32_t>(begin + i % length));
    const CacheSlots at{.positions = positions.data(), .slots = slots.data()};
    piece.mixed = convolve(piece, conv_cache.data(), at);
    EXPECT_TRUE(check::same_bits(piece.mixed, rows(mixed.mixed, begin, length))) << begin;
    EXPECT_TRUE(check::same_bits(piece.run({states.data(), at}), rows(y, begin, length))) << begin;
    begin += length;
  }
  for (const std::int64_t slot : {0, 2}) {
    EXPECT_EQ(conv_cache[static_cast<std::size_t>(slot * 2 * s.mixed())], 9.0);
    EXPECT_EQ(states[static_cast<std::size_t>(slot * s.value_heads * s.state())], 9.0);
  }
}

// Of the columns in front, without a bias.
TEST(DeltaConv, IsTheSumOverTheLastTokensOfTheDocument) {
  const Rule<double> r({.sequences = 2,
                        .length = 23,
                        .key_heads = 1,
                        .value_heads = 2,
                        .key_dim = 2,
                        .value_dim = 3,
                        .taps = 3},
                       6);
  const DeltaShape& s = r.s;
  Doubles w = check::random<double>(s.mixed() * s.taps, 15), projected = r.projected;
  Doubles got(static_cast<std::size_t>(s.tokens() * s.mixed())), expected;
  const auto run = [&] {
    cpu::causal_conv_forward(got.data(), static_cast<double*>(nullptr), projected.data(), w.data(),
                             static_cast<double*>(nullptr), r.keys(), {}, s);
  };
  run();
  for (std::int64_t token = 0; token < s.tokens(); ++token)
    for (std::int64_t c = 0; c < s.mixed(); ++c) {
      double u = 0;
      for (std::int64_t behind = 0; behind < s.taps && behind <= token % s.length % 6; ++behind)
        u += w[static_cast<std::size_t>(c * s.taps + s.taps - 1 - behind)] *
             projected[static_cast<std::size_t>((token - behind) * s.projected() + c)];
      expected.push_back(u / (1 + std::exp(-u)));
    }
  EXPECT_TRUE(check::near(got, expected));
  const Doubles d = check::random<double>(std::ssize(got), 16);
  Doubles dx(projected.size()), dw(w.size());
  double* const none = nullptr;
  cpu::causal_conv_backward(dx.data(), dw.data(), none, d.data(), projected.data(), w.data(), none,
                            r.keys(), s);
  const auto by = [&](const Doubles& gradient, Doubles& value, unsigned seed) {
    const Doubles start = value;
    check::expect_gradient(
        gradient,
        [&](const Doubles& at) {
          value = at;
          run();
          return check::dot(got, d);
        },
        start, seed);
    value = start;
  };
  by(dx, projected, 17);
  by(dw, w, 18);
}

TEST(DeltaNorm, ValuesAndGradients) {
  for (const bool zero_centered : {false, true}) {
    const DeltaShape s{.sequences = 1,
                       .length = 9,
                       .key_heads = 2,
                       .value_heads = 4,
                       .key_dim = 2,
                       .value_dim = 3};
    const DeltaNorm norm{.eps = 1e-5, .zero_centered = zero_centered};
    Doubles y = check::random<double>(s.tokens() * s.values(), 1),
            projected = check::random<double>(s.tokens() * s.projected(), 2),
            w = check::random<double>(s.value_dim, 3);
    const Doubles d_out = check::random<double>(std::ssize(y), 4);
    Doubles out(y.size()), rstd(static_cast<std::size_t>(s.tokens() * s.value_heads));
    const auto forward = [&] {
      cpu::delta_norm_forward(out.data(), rstd.data(), y.data(), projected.data(), w.data(), norm,
                              s);
      return check::dot(out, d_out);
    };
    forward();
    // The second head of the third token.
    const std::size_t first = static_cast<std::size_t>(2 * s.values() + 3),
                      gates = static_cast<std::size_t>(2 * s.projected() + s.z_of_projected() + 3);
    double squares = 0;
    for (std::size_t c = 0; c < 3; ++c) squares += y[first + c] * y[first + c];
    for (std::size_t c = 0; c < 3; ++c) {
      const double z = projected[gates + c], scale = w[c] + (zero_centered ? 1 : 0);
      EXPECT_NEAR(out[first + c],
                  y[first + c] / std::sqrt(squares / 3 + 1e-5) * scale * z / (1 + std::exp(-z)),
                  1e-13);
    }
    Doubles dy(y.size()), dz(projected.size()), dw(w.size());
    cpu::delta_norm_backward(dy.data(), dz.data(), dw.data(), d_out.data(), y.data(),
                             projected.data(), rstd.data(), w.data(), norm, s);
    const auto by = [&](const Doubles& gradient, Doubles& value, unsigned seed) {
      const Doubles start = value;
      check::expect_gradient(
          gradient,
          [&](const Doubles& at) {
            value = at;
            return forward();
          },
          start, seed);
      value = start;
    };
    by(dy, y, 5);
    by(dz, projected, 6);  // zero but for z
    by(dw, w, 7);
  }
}

TEST(OutputGate, ValuesAndGradients) {
  constexpr std::int64_t kGroups = 5, kWidth = 6, kCount = kGroups * kWidth;
  Doubles x = check::random<double>(kCount, 1), g = check::random<double>(kCount, 2);
  const Doubles dy = check::random<double>(kCount, 3);
  Doubles y(x.size()), dx(x.size()), dg(x.size()), both(2 * x.size()), q(x.size()), gate(x.size());
  const auto forward = [&] {
    cpu::output_gate_forward(y.data(), x.data(), g.data(), kCount);
    return check::dot(y, dy);
  };
  forward();
  EXPECT_NEAR(y[7], x[7] / (1 + std::exp(-g[7])), 1e-15);
  cpu::output_gate_backward(dx.data(), dg.data(), dy.data(), x.data(), g.data(), kCount);
  const auto by = [&](const Doubles& gradient, Doubles& value, unsigned seed) {
    const Doubles start = value;
    check::expect_gradient(
        gradient,
        [&](const Doubles& at) {
          value = at;
          return forward();
        },
        start, seed);
    value = start;
  };
  by(dx, x, 4);
  by(dg, g, 5);
  cpu::merge_gates(both.data(), x.data(), g.data(), kGroups, kWidth);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t at = i / kWidth * 2 * kWidth + i % kWidth;
    EXPECT_EQ(both[at], x[i]) << i;
    EXPECT_EQ(both[at + kWidth], g[i]) << i;
  }
  cpu::split_gates(q.data(), gate.data(), both.data(), kGroups, kWidth);
  EXPECT_TRUE(check::same_bits(q, x));
  EXPECT_TRUE(check::same_bits(gate, g));
}

}  // namespace
}  // namespace mt
