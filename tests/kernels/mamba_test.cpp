// A Mamba-2's mixer: its convolution, scan and gated norm against plain loops over tokens, and
// their gradients.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/causal_conv.h"
#include "kernels/chunk_scan.h"
#include "kernels/gated_norm.h"
#include "kernels/head_shares.h"
#include "tests/kernels/check.h"
#include "tests/kernels/mamba_sequences.h"

namespace mt {
namespace {

using check::Mixer;
using Doubles = std::vector<double>;

// --- Shares of heads ----------------------------------------------------------------------------

constexpr MambaShape kShared{.sequences = 2,
                             .length = 9,
                             .heads = 8,
                             .head_dim = 3,
                             .groups = 2,
                             .state_dim = 4,
                             .chunk = 4};

Doubles rows_of(const Doubles& all, std::int64_t begin, std::int64_t end) {
  return {all.begin() + begin, all.begin() + end};
}

// Convolution and scan of each rank's share make its heads' columns of what those of all make.
TEST(Mamba, SharesOfHeadsAreTheWhole) {
  const Mixer<double> whole(kShared, 4);
  const Doubles expected = whole.with_mixed(whole.convolve()).scan();
  for (const std::int64_t ranks : {1, 2, 4, 8}) {
    const HeadShares of{.whole = kShared, .ranks = ranks};
    MambaShape s = of.part();
    EXPECT_EQ(s.length, ranks * kShared.length);
    s.length = kShared.length;
    const std::int64_t cols = s.projected();
    Doubles shares(static_cast<std::size_t>(s.tokens() * ranks * cols));
    cpu::split_heads(shares.data(), whole.projected.data(), of);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      Mixer<double> part(s, 4);
      for (std::int64_t t = 0; t < s.tokens(); ++t)
        std::copy_n(shares.begin() + (t * ranks + rank) * cols, cols,
                    part.projected.begin() + t * cols);
      part.dt_bias = rows_of(whole.dt_bias, rank * s.heads, (rank + 1) * s.heads);
      part.a_log = rows_of(whole.a_log, rank * s.heads, (rank + 1) * s.heads);
      part.d = rows_of(whole.d, rank * s.heads, (rank + 1) * s.heads);
      for (std::int64_t c = 0; c < s.mixed(); ++c) {
        const std::int64_t from = of.place(rank, c) - kShared.mixed_of_projected();
        part.conv_b[static_cast<std::size_t>(c)] = whole.conv_b[static_cast<std::size_t>(from)];
        std::copy_n(whole.conv_w.begin() + from * s.taps, s.taps, part.conv_w.begin() + c * s.taps);
      }
      const Doubles y = part.with_mixed(part.convolve()).scan();
      for (std::int64_t i = 0; i < s.tokens() * s.inner(); ++i)
        EXPECT_DOUBLE_EQ(y[static_cast<std::size_t>(i)],
                         expected[static_cast<std::size_t>(i / s.inner() * kShared.inner() +
                                                           rank * s.inner() + i % s.inner())])
            << ranks << ' ' << rank << ' ' << i;
    }
  }
}

// What is merged is the transpose of what is split, and z stays as it is.
TEST(Mamba, SharesOfHeadsAreMerged) {
  for (const std::int64_t ranks : {1, 2, 4, 8}) {
    const HeadShares of{.whole = kShared, .ranks = ranks};
    const std::int64_t count = kShared.tokens() * ranks * of.part().projected(),
                       all = kShared.projected();
    const Doubles projected = check::random<double>(kShared.tokens() * all, 1),
                  d_shares = check::random<double>(count, 2);
    Doubles shares(static_cast<std::size_t>(count)),
        d_projected(projected.size(), std::numeric_limits<double>::quiet_NaN());
    cpu::split_heads(shares.data(), projected.data(), of);
    cpu::merge_heads(d_projected.data(), d_shares.data(), of);
    double of_shares = 0, of_whole = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) of_shares += shares[i] * d_shares[i];
    for (std::size_t i = 0; i < projected.size(); ++i) {
      const bool is_z = static_cast<std::int64_t>(i) % all < kShared.inner();
      EXPECT_EQ(std::isnan(d_projected[i]), is_z) << i;
      if (!is_z) of_whole += projected[i] * d_projected[i];
    }
    EXPECT_NEAR(of_shares, of_whole, 1e-12 * std::abs(of_shares)) << ranks;
  }
}

// --- Scan ---------------------------------------------------------------------------------------

// The recurrence, token by token, from nothing.
Doubles recurrence(const Mixer<double>& m) {
  const MambaShape& s = m.s;
  Doubles y(static_cast<std::size_t>(s.tokens() * s.inner()));
  for (std::int64_t i = 0; i < s.sequences * s.heads; ++i) {
    const std::int64_t sequence = i / s.heads, h = i % s.heads, group = h * s.groups / s.heads;
    Doubles state(static_cast<std::size_t>(s.state()));
    for (std::int64_t t = 0; t < s.length; ++t) {
      const std::int64_t token = sequence * s.length + t;
      if (m.keys() != nullptr && m.keys()[token] == t) std::ranges::fill(state, 0.0);
      const double* const row = m.mixed.data() + token * s.mixed();
      const double *const x = row + h * s.head_dim,
                          *const b = row + s.b_of_mixed() + group * s.state_dim,
                          *const c = row + s.c_of_mixed() + group * s.state_dim;
      const std::size_t at =
          static_cast<std::size_t>(token * s.projected() + s.dt_of_projected() + h);
      const auto head = static_cast<std::size_t>(h);
      const double dt = std::log1p(std::exp(m.projected[at] + m.dt_bias[head]));
      const double kept = std::exp(-dt * std::exp(m.a_log[head]));
      for (std::int64_t p = 0; p < s.head_dim; ++p) {
        double sum = m.d[head] * x[p];
        for (std::int64_t n = 0; n < s.state_dim; ++n) {
          double& of = state[static_cast<std::size_t>(p * s.state_dim + n)];
          of = kept * of + dt * x[p] * b[n];
          sum += of * c[n];
        }
        y[static_cast<std::size_t>(token * s.inner() + h * s.head_dim + p)] = sum;
      }
    }
  }
  return y;
}

TEST(ChunkScan, IsTheRecurrenceWhateverTheChunk) {
  for (const std::int64_t document : {0, 37, 1}) {
    Mixer<double> m(
        {.sequences = 2, .length = 300, .heads = 4, .head_dim = 5, .groups = 2, .state_dim = 7},
        document);
    const Doubles expected = recurrence(m);
    for (const std::int64_t chunk : {1, 16, 32, 64, 100, 128, 256}) {
      m.s.chunk = chunk;
      EXPECT_TRUE(check::near(m.scan(), expected, 1e-12)) << document << " by " << chunk;
    }
  }
}

TEST(ChunkScan, OfFloatsIsNearThatOfDoubles) {
  const Mixer<float> floats(
      {.sequences = 1, .length = 200, .heads = 2, .head_dim = 16, .groups = 1, .state_dim = 32});
  Mixer<double> doubles(floats.s);
  doubles.assign(floats);
  EXPECT_TRUE(check::near(floats.scan(), doubles.scan(), 1e-5));
  check::expect_same_on_any_threads([&] { return floats.scan(); });
}

TEST(ChunkScan, Gradients) {
  for (const std::int64_t document : {0, 5}) {
    Mixer<double> m({.sequences = 2,
                     .length = 19,
                     .heads = 4,
                     .head_dim = 3,
                     .groups = 2,
                     .state_dim = 4,
                     .chunk = 8},
                    document);
    const Doubles dy = check::random<double>(std::ssize(m.scan()), 90);
    const auto got = m.scan_backward(dy, 0.25);
    const auto by = [&](const Doubles& gradient, Doubles& value, double before, unsigned seed) {
      const Doubles start = value;
      Doubles of_these = gradient;
      for (double& one : of_these) one -= before;
      check::expect_gradient(
          of_these,
          [&](const Doubles& at) {
            value = at;
            return check::dot(m.scan(), dy);
          },
          start, seed);
      value = start;
    };
    by(got.mixed, m.mixed, 0, 91);
    by(got.projected, m.projected, 0, 92);  // zero but for dt
    by(got.dt_bias, m.dt_bias, 0.25, 93);
    by(got.a_log, m.a_log, 0.25, 94);
    by(got.d, m.d, 0.25, 95);
  }
}

// Gradients of the parts of longer sequences do not depend on the chunk.
TEST(ChunkScan, GradientsAreTheSameWhateverTheChunk) {
  Mixer<double> m({.sequences = 1,
                   .length = 260,
                   .heads = 2,
                   .head_dim = 4,
                   .groups = 1,
                   .state_dim = 6,
                   .chunk = 16},
                  70);
  const Doubles dy = check::random<double>(std::ssize(m.scan()), 90);
  const auto expected = m.scan_backward(dy, 0);
  for (const std::int64_t chunk : {32, 128, 256}) {
    m.s.chunk = chunk;
    const auto got = m.scan_backward(dy, 0);
    EXPECT_TRUE(check::near(got.mixed, expected.mixed, 1e-10)) << chunk;
    EXPECT_TRUE(check::near(got.projected, expected.projected, 1e-10)) << chunk;
    EXPECT_TRUE(check::near(got.a_log, expected.a_log, 1e-10)) << chunk;
    EXPECT_TRUE(check::near(got.dt_bias, expected.dt_bias, 1e-10)) << chunk;
  }
  check::expect_same_on_any_threads([&] { return m.scan_backward(dy, 0).mixed; });
}

// --- With a cache -------------------------------------------------------------------------------

// Sequences in pieces, whose states lie in some slots of a cache between them, give what they give
// whole; what lay in their slots before does not matter, and the other slots stay as they are.
TEST(Mamba, SequencesGoOnInPieces) {
  const Mixer<double> whole({.sequences = 2,
                             .length = 11,
                             .heads = 2,
                             .head_dim = 3,
                             .groups = 1,
                             .state_dim = 4,
                             .chunk = 4});
  const MambaShape& s = whole.s;
  const Doubles mixed = whole.convolve(), y = whole.with_mixed(mixed).scan();
  Doubles conv_cache(static_cast<std::size_t>(4 * 3 * s.mixed()), 9.0),
      states(static_cast<std::size_t>(4 * s.heads * s.state()), 9.0);
  const std::vector<std::int32_t> slots = {3, 1};
  std::int64_t begin = 0;
  for (const std::int64_t length : {1, 5, 2, 1, 2}) {
    const Mixer<double> piece = whole.piece(begin, length);
    std::vector<std::int32_t> positions;
    for (std::int64_t i = 0; i < 2 * length; ++i)
      positions.push_back(static_cast<std::int32_t>(begin + i % length));
    const CacheSlots at{.positions = positions.data(), .slots = slots.data()};
    const Doubles got = piece.convolve(conv_cache.data(), at);
    EXPECT_TRUE(check::near(got, whole.rows_of(mixed, begin, length), 1e-13)) << begin;
    const Doubles out = piece.with_mixed(got).scan({states.data(), states.data(), at});
    EXPECT_TRUE(check::near(out, whole.rows_of(y, begin, length), 1e-13)) << begin;
    begin += length;
  }
  for (const std::int64_t slot : {0, 2}) {
    EXPECT_EQ(conv_cache[static_cast<std::size_t>(slot * 3 * s.mixed())], 9.0);
    EXPECT_EQ(states[static_cast<std::size_t>(slot * s.heads * s.state())], 9.0);
  }
}

// --- Convolution --------------------------------------------------------------------------------

TEST(CausalConv, IsTheSumOverTheLastTokensOfTheDocument) {
  for (const std::int64_t taps : {2, 4}) {
    const Mixer<double> m({.sequences = 2,
                           .length = 23,
                           .heads = 2,
                           .head_dim = 3,
                           .groups = 1,
                           .state_dim = 4,
                           .taps = taps},
                          6);
    const MambaShape& s = m.s;
    Doubles expected;
    for (std::int64_t token = 0; token < s.tokens(); ++token)
      for (std::int64_t c = 0; c < s.mixed(); ++c) {
        double u = m.conv_b[static_cast<std::size_t>(c)];
        for (std::int64_t k = 0; k < taps; ++k) {
          const std::int64_t behind = taps - 1 - k;
          if (behind <= token % s.length % 6)
            u += m.conv_w[static_cast<std::size_t>(c * taps + k)] *
                 m.projected[static_cast<std::size_t>((token - behind) * s.projected() + s.inner() +
                                                      c)];
        }
        expected.push_back(u / (1 + std::exp(-u)));
      }
    EXPECT_TRUE(check::near(m.convolve(), expected)) << taps;
  }
}

TEST(CausalConv, Gradients) {
  for (const std::int64_t document : {0, 4}) {
    Mixer<double> m(
        {.sequences = 2, .length = 300, .heads = 1, .head_dim = 2, .groups = 1, .state_dim = 1},
        document);
    const MambaShape& s = m.s;
    const Doubles d_mixed = check::random<double>(s.tokens() * s.mixed(), 90);
    Doubles dx(m.projected.size()), dw(m.conv_w.size()), db(m.conv_b.size());
    cpu::causal_conv_backward(dx.data(), dw.data(), db.data(), d_mixed.data(), m.projected.data(),
                              m.conv_w.data(), m.conv_b.data(), m.keys(), s);
    const auto by = [&](const Doubles& gradient, Doubles& value, unsigned seed) {
      const Doubles start = value;
      check::expect_gradient(
          gradient,
          [&](const Doubles& at) {
            value = at;
            return check::dot(m.convolve(), d_mixed);
          },
          start, seed);
      value = start;
    };
    by(dx, m.projected, 91);
    by(dw, m.conv_w, 92);
    by(db, m.conv_b, 93);
  }
}

// --- Gated norm ---------------------------------------------------------------------------------

TEST(GatedNorm, Gradients) {
  const Mixer<double> m(
      {.sequences = 1, .length = 9, .heads = 4, .head_dim = 3, .groups = 2, .state_dim = 1});
  const MambaShape& s = m.s;
  const Doubles y = check::random<double>(s.tokens() * s.inner(), 1),
                w = check::random<double>(s.inner(), 2), d_out = check::random<double>(y.size(), 3);
  Doubles out(y.size()), rstd(static_cast<std::size_t>(s.tokens() * s.groups));
  const auto forward = [&](const Doubles& of_y, const Doubles& projected, const Doubles& of_w) {
    cpu::gated_norm_forward(out.data(), rstd.data(), of_y.data(), projected.data(), of_w.data(),
                            1e-5, s);
    return check::dot(out, d_out);
  };
  forward(y, m.projected, w);
  // The first group of the second token.
  Doubles h;
  double squares = 0;
  for (std::size_t c = 0; c < 6; ++c) {
    const double z = m.projected[static_cast<std::size_t>(s.projected()) + c];
    h.push_back(y[12 + c] * z / (1 + std::exp(-z)));
    squares += h.back() * h.back();
  }
  for (std::size_t c = 0; c < 6; ++c)
    EXPECT_NEAR(out[12 + c], h[c] / std::sqrt(squares / 6 + 1e-5) * w[c], 1e-13);
  Doubles dy(y.size()), dz(m.projected.size()), dw(w.size());
  cpu::gated_norm_backward(dy.data(), dz.data(), dw.data(), d_out.data(), y.data(),
                           m.projected.data(), rstd.data(), w.data(), s);
  check::expect_gradient(
      dy, [&](const Doubles& at) { return forward(at, m.projected, w); }, y, 4);
  check::expect_gradient(
      dz, [&](const Doubles& at) { return forward(y, at, w); }, m.projected, 5);
  check::expect_gradient(
      dw, [&](const Doubles& at) { return forward(y, m.projected, at); }, w, 6);
}

// --- All of it ----------------------------------------------------------------------------------

// value[i] = centre + c sin(0.7 (i + 1) + 0.9 t)
Doubles filled(std::int64_t count, double c, int t, double centre = 0) {
  Doubles values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(centre + c * std::sin(0.7 * static_cast<double>(i + 1) + 0.9 * t));
  return values;
}

// out[rows, cols] = a[rows, k] b[cols, k]^T
Doubles product(const Doubles& a, const Doubles& b, std::int64_t rows, std::int64_t cols) {
  const std::int64_t k = std::ssize(a) / rows;
  Doubles out;
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < k; ++j)
      sum += a[static_cast<std::size_t>(i / cols * k + j)] *
             b[static_cast<std::size_t>(i % cols * k + j)];
    out.push_back(sum);
  }
  return out;
}

struct Golden {
  Mixer<double> m{
      {.sequences = 1, .length = 6, .heads = 4, .head_dim = 4, .groups = 2, .state_dim = 3}};
  Doubles norm = filled(16, 0.05 * 2, 6, 1), out_proj = filled(8 * 16, 0.3, 7), scanned, rstd;

  explicit Golden(std::vector<std::int32_t> first_key) {
    m.a_log = filled(4, 0.5, 0);
    m.d = filled(4, 0.5, 1, 1);
    m.conv_b = filled(28, 0.3, 2);
    m.conv_w = filled(28 * 4, 0.5, 3);
    m.dt_bias = filled(4, 0.5, 4);
    Doubles u;
    for (int i = 0; i < 48; ++i) u.push_back(std::sin(0.9 * (i + 1)));
    m.projected = product(u, filled(48 * 8, 0.3, 5), 6, 48);
    m.first_key = std::move(first_key);
  }
  // [6, 8]
  Doubles forward() {
    m.mixed = m.convolve();
    scanned = m.scan();
    Doubles normed(scanned.size());
    rstd.resize(12);
    cpu::gated_norm_forward(normed.data(), rstd.data(), scanned.data(), m.projected.data(),
                            norm.data(), 1e-5, m.s);
    return product(normed, out_proj, 6, 8);
  }
};

testing::AssertionResult starts(const Doubles& got, const Doubles& expected) {
  return check::near(Doubles(got.begin(), got.begin() + std::ssize(expected)), expected, 1e-6);
}

// transformers 5.24's torch_forward() agrees to 2e-7.
TEST(Mamba, MixerOfOthers) {
  Golden g({0, 0, 0, 0, 0, 0});
  const Doubles y = g.forward();
  EXPECT_TRUE(
      starts(y, {.061921, -.185812, -.137363, .130041, .190161, -.052834, -.211612, -.033082}));
  EXPECT_TRUE(starts({y.begin() + 40, y.end()}, {-.056641, -.706349, -.230143, .612909, .478990,
                                                 -.418434, -.648878, .154983}));
  const std::vector<std::int32_t> positions = {0, 1, 2, 3, 4, 5};
  const CacheSlots slot{.positions = positions.data()};
  Doubles states(4 * 12), kept(3 * 28);
  (void)g.m.scan({states.data(), states.data(), slot});
  EXPECT_TRUE(starts(states, {.084503, -.047487, .223980, .273026, -.134831, .255090, -.135485,
                              .077551, -.176218, -.013747, -.006543, .069740}));
  (void)g.m.convolve(kept.data(), slot);
  EXPECT_TRUE(starts({kept[0], kept[28], kept[56]}, {-.831047, .009499, .842605}));

  Doubles dy;
  for (int i = 0; i < 48; ++i) dy.push_back(std::cos(i));
  EXPECT_NEAR(check::dot(y, dy), -1.22241113, 1e-6);
  Doubles d_normed;
  for (std::size_t i = 0; i < 96; ++i) {
    double sum = 0;
    for (std::size_t o = 0; o < 8; ++o) sum += dy[i / 16 * 8 + o] * g.out_proj[o * 16 + i % 16];
    d_normed.push_back(sum);
  }
  Doubles d_scanned(96), d_projected(g.m.projected.size()), d_norm(16), dw(112), db(28);
  cpu::gated_norm_backward(d_scanned.data(), d_projected.data(), d_norm.data(), d_normed.data(),
                           g.scanned.data(), g.m.projected.data(), g.rstd.data(), g.norm.data(),
                           g.m.s);
  const auto of_scan = g.m.scan_backward(d_scanned, 0);
  cpu::causal_conv_backward(d_projected.data(), dw.data(), db.data(), of_scan.mixed.data(),
                            g.m.projected.data(), g.m.conv_w.data(), g.m.conv_b.data(), g.m.keys(),
                            g.m.s);
  EXPECT_TRUE(starts(of_scan.a_log, {-.119309, .054313, -.133953, -.034615}));
  EXPECT_TRUE(starts(of_scan.d, {-.560521, .550068, -.936971, .859541}));
  EXPECT_TRUE(starts(of_scan.dt_bias, {-.072534, .078548, -.271547, .361136}));
  EXPECT_TRUE(starts(d_norm, {-1.401196, 1.408995, -1.825507, .710985}));
  EXPECT_TRUE(starts(db, {.278036, -1.563285, -5.533653, -1.209377}));
}

TEST(Mamba, MixerOfTwoDocuments) {
  Golden g({0, 0, 0, 3, 3, 3});
  const Doubles y = g.forward();
  EXPECT_TRUE(starts({y.begin() + 24, y.end()}, {-.417218, -.995354, .013094, 1.000670}));
  EXPECT_TRUE(starts({y.begin() + 40, y.end()}, {.004233, -.270970, -.114249, .224584}));
}

}  // namespace
}  // namespace mt
