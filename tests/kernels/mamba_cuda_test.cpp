// The kernels of a Mamba-2's mixer on the GPU against the CPU's in double.
#include <algorithm>

#include "kernels/gated_norm.h"
#include "kernels/head_shares.h"
#include "tests/kernels/device_numbers.h"
#include "tests/kernels/mamba_sequences.h"

namespace mt {
namespace {

using check::bf16;
using check::DeviceArray;
using check::kRounding;
using check::Mixer;
using check::Numbers;
using Doubles = std::vector<double>;

// What a mixer of doubles is given, on the device too; both are rounded to what T holds.
template <class T>
struct OnDevice {
  explicit OnDevice(Mixer<double>& m)
      : projected(m.projected, 0),
        mixed(m.mixed, 0),
        conv_w(m.conv_w, 0),
        conv_b(m.conv_b, 0),
        dt_bias(m.dt_bias, 0),
        a_log(m.a_log, 0),
        d(m.d, 0),
        first_key(m.first_key),
        has_documents(!m.first_key.empty()) {
    m.projected = projected.values();
    m.mixed = mixed.values();
    m.conv_w = conv_w.values();
    m.conv_b = conv_b.values();
    m.dt_bias = dt_bias.values();
    m.a_log = a_log.values();
    m.d = d.values();
  }
  const std::int32_t* keys() const { return has_documents ? first_key.data() : nullptr; }
  ScanWeights<T> weights() const { return {dt_bias.data(), a_log.data(), d.data()}; }

  Numbers<T> projected, mixed, conv_w, conv_b, dt_bias, a_log, d;
  DeviceArray<std::int32_t> first_key;
  bool has_documents;
};

struct Case {
  MambaShape shape;
  std::int64_t document = 0;
  bool cancels = false;  // nearly everything does in some of the heads' sums over all tokens
};

std::vector<Case> cases() {
  return {
      {{.sequences = 1, .length = 1, .heads = 1, .head_dim = 1, .groups = 1, .state_dim = 1}},
      {{.sequences = 2,
        .length = 33,
        .heads = 3,
        .head_dim = 5,
        .groups = 1,
        .state_dim = 7,
        .chunk = 16}},
      {{.sequences = 2, .length = 200, .heads = 4, .head_dim = 64, .groups = 2, .state_dim = 128},
       63},
      {{.sequences = 1, .length = 300, .heads = 20, .head_dim = 64, .groups = 2, .state_dim = 128}},
      {{.sequences = 2, .length = 150, .heads = 8, .head_dim = 64, .groups = 2, .state_dim = 128},
       41,
       true},
      {{.sequences = 1, .length = 300, .heads = 80, .head_dim = 64, .groups = 1, .state_dim = 128},
       149,
       true},
      {{.sequences = 1,
        .length = 300,
        .heads = 8,
        .head_dim = 80,
        .groups = 4,
        .state_dim = 16,
        .taps = 3,
        .chunk = 256},
       31}};
}

template <class T>
class MambaCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(MambaCuda, check::ElementTypes);

Numbers<float> filled(std::int64_t count, double value) {
  return {Doubles(static_cast<std::size_t>(count), value), 0};
}
Doubles plus(Doubles x, double value) {
  for (double& one : x) one += value;
  return x;
}

// The tolerance of heads' sums, which, where they cancel, are measured by the largest of them.
double of_sums(const Case& c, const Doubles& sums) {
  double largest = 1;
  for (const double sum : sums) largest = std::max(largest, std::abs(sum));
  return c.cancels ? 1e-3 * largest : 1e-3;
}

TYPED_TEST(MambaCuda, Convolution) {
  using T = TypeParam;
  for (const Case& c : cases()) {
    Mixer<double> m(c.shape, c.document);
    const OnDevice<T> there(m);
    const MambaShape& s = m.s;
    const Numbers<T> mixed(s.tokens() * s.mixed());
    cuda::causal_conv_forward<T>(mixed.data(), nullptr, there.projected.data(), there.conv_w.data(),
                                 there.conv_b.data(), there.keys(), {}, s, nullptr);
    EXPECT_TRUE(near(mixed, m.convolve(), kRounding<T> + 1e-5)) << s.length;

    const check::Input<T> d_mixed(s.tokens() * s.mixed(), 20);
    const Numbers<T> d_projected(s.tokens() * s.projected());
    const Numbers<float> dw = filled(s.mixed() * s.taps, 0.5), db = filled(s.mixed(), 0.5);
    const DeviceArray<std::byte> work(cuda::causal_conv_backward_work(s));
    const auto run = [&] {
      cuda::causal_conv_backward(d_projected.data(), dw.data(), db.data(), d_mixed.data(),
                                 there.projected.data(), there.conv_w.data(), there.conv_b.data(),
                                 there.keys(), s, work.data(), nullptr);
    };
    run();
    Doubles dx(m.projected.size()), of_w(m.conv_w.size(), 0.5), of_b(m.conv_b.size(), 0.5);
    cpu::causal_conv_backward(dx.data(), of_w.data(), of_b.data(), d_mixed.host.data(),
                              m.projected.data(), m.conv_w.data(), m.conv_b.data(), m.keys(), s);
    EXPECT_TRUE(near(dw, of_w, 1e-4)) << s.length;
    EXPECT_TRUE(near(db, of_b, 1e-4)) << s.length;
    // Only the middle is written.
    const auto middle = [&](const Doubles& all) {
      Doubles some;
      for (std::int64_t token = 0; token < s.tokens(); ++token)
        some.insert(some.end(), all.begin() + token * s.projected() + s.inner(),
                    all.begin() + token * s.projected() + s.dt_of_projected());
      return some;
    };
    EXPECT_TRUE(check::near(middle(d_projected.values()), middle(dx), kRounding<T> + 1e-5));
    EXPECT_TRUE(std::isnan(d_projected.values().front()));
    EXPECT_TRUE(std::isnan(d_projected.values().back()));
  }
}

TYPED_TEST(MambaCuda, Scan) {
  using T = TypeParam;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.shape.length);
    Mixer<double> m(c.shape, c.document);
    const OnDevice<T> there(m);
    const MambaShape& s = m.s;
    const Numbers<T> y(s.tokens() * s.inner());
    const DeviceArray<std::byte> work(cuda::chunk_scan_work(s));
    cuda::chunk_scan_forward<T>(y.data(), there.mixed.data(), there.projected.data(),
                                there.weights(), there.keys(), {}, s, work.data(), nullptr);
    EXPECT_TRUE(near(y, m.scan(), kRounding<T> + 3e-5));

    const check::Input<T> dy(s.tokens() * s.inner(), 20);
    const Numbers<T> d_mixed(s.tokens() * s.mixed()), d_projected(s.tokens() * s.projected());
    const Numbers<float> d_bias = filled(s.heads, 0.5), d_a_log = filled(s.heads, 0.5),
                         d_d = filled(s.heads, 0.5);
    const DeviceArray<std::byte> more(cuda::chunk_scan_backward_work(s));
    const auto run = [&] {
      cuda::chunk_scan_backward<T, float>(d_mixed.data(), d_projected.data(),
                                          {d_bias.data(), d_a_log.data(), d_d.data()}, dy.data(),
                                          there.mixed.data(), there.projected.data(),
                                          there.weights(), there.keys(), s, more.data(), nullptr);
    };
    run();
    const auto expected = m.scan_backward(dy.host, 0);
    EXPECT_TRUE(near(d_mixed, expected.mixed, kRounding<T> + 1e-4));
    EXPECT_TRUE(near(d_bias, plus(expected.dt_bias, 0.5), of_sums(c, expected.dt_bias)));
    EXPECT_TRUE(near(d_a_log, plus(expected.a_log, 0.5), of_sums(c, expected.a_log)));
    EXPECT_TRUE(near(d_d, plus(expected.d, 0.5), 1e-4));
    const Doubles of_projected = d_projected.values();
    for (std::int64_t i = 0; i < s.tokens() * s.projected(); ++i) {
      const double got = of_projected[static_cast<std::size_t>(i)],
                   wanted = expected.projected[static_cast<std::size_t>(i)];
      if (i % s.projected() < s.dt_of_projected())
        ASSERT_TRUE(std::isnan(got)) << i;
      else
        ASSERT_NEAR(got, wanted, (kRounding<T> + 1e-3) * (1 + std::abs(wanted))) << i;
    }
    expect_same_bits(d_mixed, 2, run);
  }
}

// Pieces of sequences, with their states in slots of a cache between them.
template <class T>
void check_pieces(const MambaShape& shape, const std::vector<std::int64_t>& lengths) {
  Mixer<double> whole(shape);
  (void)OnDevice<T>(whole);  // rounds
  const MambaShape& s = whole.s;
  const Numbers<T> conv_cache(4 * 3 * s.mixed());
  const Numbers<float> states(4 * s.heads * s.state());
  const DeviceArray<std::int32_t> slots(std::vector<std::int32_t>{3, 1});
  const Doubles mixed = whole.convolve(), y = whole.scan();
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    Mixer<double> piece = whole.piece(begin, length);
    const OnDevice<T> there(piece);
    std::vector<std::int32_t> at;
    for (std::int64_t i = 0; i < 2 * length; ++i)
      at.push_back(static_cast<std::int32_t>(begin + i % length));
    const DeviceArray<std::int32_t> positions(at);
    const CacheSlots slot{.positions = positions.data(), .slots = slots.data()};
    const Numbers<T> got(2 * length * s.mixed()), out(2 * length * s.inner());
    const DeviceArray<std::byte> work(cuda::chunk_scan_work(piece.s));
    cuda::causal_conv_forward(got.data(), conv_cache.data(), there.projected.data(),
                              there.conv_w.data(), there.conv_b.data(), nullptr, slot, piece.s,
                              nullptr);
    EXPECT_TRUE(near(got, whole.rows_of(mixed, begin, length), kRounding<T> + 1e-5)) << begin;
    cuda::chunk_scan_forward<T>(out.data(), there.mixed.data(), there.projected.data(),
                                there.weights(), nullptr, {states.data(), states.data(), slot},
                                piece.s, work.data(), nullptr);
    EXPECT_TRUE(near(out, whole.rows_of(y, begin, length), kRounding<T> + 3e-5)) << begin;
    begin += length;
  }
  EXPECT_TRUE(std::isnan(states.values().front()));  // another's slot
  EXPECT_TRUE(std::isnan(conv_cache.values().front()));
}

TYPED_TEST(MambaCuda, SequencesGoOnInPieces) {
  check_pieces<TypeParam>({.sequences = 2,
                           .length = 40,
                           .heads = 2,
                           .head_dim = 8,
                           .groups = 1,
                           .state_dim = 16,
                           .chunk = 16},
                          {1, 20, 2, 1, 16});
  check_pieces<TypeParam>(
      {.sequences = 2, .length = 300, .heads = 3, .head_dim = 64, .groups = 1, .state_dim = 128},
      {40, 1, 140, 119});
  check_pieces<TypeParam>(
      {.sequences = 2, .length = 400, .heads = 40, .head_dim = 64, .groups = 2, .state_dim = 128},
      {40, 1, 300, 59});
}

// Copies, and sums of a few numbers, as the CPU's.
TYPED_TEST(MambaCuda, SharesOfHeads) {
  using T = TypeParam;
  for (const std::int64_t ranks : {1, 2, 8})
    for (const std::int64_t groups : {1, 2, 8}) {
      SCOPED_TRACE(ranks * 100 + groups);
      const HeadShares of{.whole = {.sequences = 2,
                                    .length = 33,
                                    .heads = 16,
                                    .head_dim = 5,
                                    .groups = groups,
                                    .state_dim = 31},
                          .ranks = ranks};
      const std::int64_t all = of.whole.tokens() * of.whole.projected(),
                         count = of.whole.tokens() * ranks * of.part().projected();
      const check::Input<T> projected(all, 30), d_shares(count, 31);
      const Numbers<T> shares(count), d_projected(all);
      cuda::split_heads(shares.data(), projected.data(), of, nullptr);
      cuda::merge_heads(d_projected.data(), d_shares.data(), of, nullptr);
      Doubles expected(static_cast<std::size_t>(count)), merged(static_cast<std::size_t>(all));
      cpu::split_heads(expected.data(), projected.host.data(), of);
      cpu::merge_heads(merged.data(), d_shares.host.data(), of);
      EXPECT_EQ(shares.values(), expected);
      const Doubles found = d_projected.values();
      for (std::int64_t i = 0; i < all; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (i % of.whole.projected() < of.whole.inner())
          ASSERT_TRUE(std::isnan(found[at])) << i;
        else
          ASSERT_NEAR(found[at], merged[at], (kRounding<T> + 1e-5) * (1 + std::abs(merged[at])))
              << i;
      }
    }
}

TYPED_TEST(MambaCuda, GatedNorm) {
  using T = TypeParam;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.shape.length);
    Mixer<double> m(c.shape);
    const OnDevice<T> there(m);
    const MambaShape& s = m.s;
    if (s.inner() % s.groups != 0) continue;
    const check::Input<T> y(s.tokens() * s.inner(), 20), w(s.inner(), 21, 0, 0.5, 1.5),
        d_out(s.tokens() * s.inner(), 22);
    const Numbers<T> out(s.tokens() * s.inner()), dy(s.tokens() * s.inner()),
        d_projected(s.tokens() * s.projected());
    const Numbers<float> rstd(s.tokens() * s.groups), dw = filled(s.inner(), 0.5);
    cuda::gated_norm_forward(out.data(), rstd.data(), y.data(), there.projected.data(), w.data(),
                             1e-5, s, nullptr);
    Doubles expected(y.host.size()), of_rstd(static_cast<std::size_t>(s.tokens() * s.groups)),
        of_dy(y.host.size()), of_projected(m.projected.size()), of_w(w.host.size(), 0.5);
    cpu::gated_norm_forward(expected.data(), of_rstd.data(), y.host.data(), m.projected.data(),
                            w.host.data(), 1e-5, s);
    EXPECT_TRUE(near(out, expected, kRounding<T> + 1e-5));
    EXPECT_TRUE(near(rstd, of_rstd, 1e-5));
    const DeviceArray<std::byte> work(cuda::gated_norm_backward_work(s));
    cuda::gated_norm_backward(dy.data(), d_projected.data(), dw.data(), d_out.data(), y.data(),
                              there.projected.data(), rstd.data(), w.data(), s, work.data(),
                              nullptr);
    cpu::gated_norm_backward(of_dy.data(), of_projected.data(), of_w.data(), d_out.host.data(),
                             y.host.data(), m.projected.data(), of_rstd.data(), w.host.data(), s);
    EXPECT_TRUE(near(dy, of_dy, kRounding<T> + 1e-4));
    EXPECT_TRUE(near(dw, of_w, 1e-4));
    const Doubles dz = d_projected.values();
    for (std::int64_t i = 0; i < s.tokens() * s.inner(); ++i) {
      const auto at = static_cast<std::size_t>(i / s.inner() * s.projected() + i % s.inner());
      ASSERT_NEAR(dz[at], of_projected[at],
                  (kRounding<T> + 1e-4) * (1 + std::abs(of_projected[at])))
          << i;
    }
    EXPECT_TRUE(std::isnan(dz.back()));
  }
}

}  // namespace
}  // namespace mt
