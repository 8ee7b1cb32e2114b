// The kernels of a mixer with the gated delta rule, and of attention's gate, on the GPU against the
// CPU's in double.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/causal_conv.h"
#include "kernels/delta_norm.h"
#include "kernels/delta_rule.h"
#include "kernels/output_gate.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::bf16;
using check::DeviceArray;
using check::Input;
using check::kRounding;
using check::Numbers;
using Doubles = std::vector<double>;

// What a mixer is given, on the host and, as T holds it, on the device.
template <class T>
struct Mixer {
  DeltaShape s;
  Input<T> projected, mixed, conv_w, dt_bias, a_log, norm;
  std::vector<std::int32_t> first_key;  // empty: no documents
  DeviceArray<std::int32_t> there;

  // document: tokens of one; 0: a sequence is one, and there is no first_key.
  explicit Mixer(const DeltaShape& shape, std::int64_t document = 0)
      : s(shape),
        projected(s.tokens() * s.projected(), 11),
        mixed(s.tokens() * s.mixed(), 12),
        conv_w(s.mixed() * s.taps, 13, 0, -0.5, 0.5),
        dt_bias(s.value_heads, 14, 0, -3, 0),
        a_log(s.value_heads, 15, 0, -2, 2.8),
        norm(s.value_dim, 16, 0, 0.5, 1.5),
        first_key(firsts(s, document)),
        there(first_key) {}
  static std::vector<std::int32_t> firsts(const DeltaShape& s, std::int64_t document) {
    std::vector<std::int32_t> first;
    for (std::int64_t i = 0; document > 0 && i < s.tokens(); ++i)
      first.push_back(static_cast<std::int32_t>(i % s.length / document * document));
    return first;
  }
  const std::int32_t* keys() const { return first_key.empty() ? nullptr : first_key.data(); }
  const std::int32_t* keys_there() const { return first_key.empty() ? nullptr : there.data(); }

  Doubles rule() const {
    Doubles y(static_cast<std::size_t>(s.tokens() * s.values()));
    cpu::delta_rule_forward<double>(y.data(), mixed.host.data(), projected.host.data(),
                                    dt_bias.host.data(), a_log.host.data(), keys(), {}, s);
    return y;
  }
};

struct Case {
  DeltaShape shape;
  std::int64_t document = 0;
};

constexpr DeltaShape shape(std::int64_t sequences, std::int64_t length, std::int64_t key_heads,
                           std::int64_t value_heads, std::int64_t key_dim, std::int64_t value_dim,
                           std::int64_t taps = 4) {
  return {.sequences = sequences,
          .length = length,
          .key_heads = key_heads,
          .value_heads = value_heads,
          .key_dim = key_dim,
          .value_dim = value_dim,
          .taps = taps};
}

// Odd lengths, up to the widest heads, documents that end anywhere and of one token.
const Case kCases[] = {{shape(1, 1, 1, 1, 1, 1)},         {shape(2, 33, 3, 6, 5, 7, 3)},
                       {shape(2, 33, 3, 6, 5, 7, 3), 1},  {shape(1, 64, 1, 2, 16, 24)},
                       {shape(2, 129, 2, 2, 32, 64), 50}, {shape(1, 200, 2, 6, 64, 32), 17},
                       {shape(2, 131, 2, 4, 128, 128)},   {shape(1, 300, 1, 2, 128, 128), 77},
                       {shape(1, 70, 1, 1, 130, 96)},     {shape(1, 90, 1, 2, 256, 256), 65}};

template <class T>
class DeltaCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(DeltaCuda, check::ElementTypes);

Numbers<float> filled(std::int64_t count, double value) {
  return {Doubles(static_cast<std::size_t>(count), value), 0};
}

// The columns of rows of so many from `first` on to `end`.
Doubles columns(const Doubles& rows, std::int64_t width, std::int64_t first, std::int64_t end) {
  Doubles some;
  for (std::int64_t row = 0; row < std::ssize(rows) / width; ++row)
    some.insert(some.end(), rows.begin() + row * width + first, rows.begin() + row * width + end);
  return some;
}
bool none_is_written(const Doubles& x) {
  return std::ranges::all_of(x, [](double one) { return std::isnan(one); });
}

TYPED_TEST(DeltaCuda, Convolution) {
  using T = TypeParam;
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.shape.key_dim * 1000 + c.document);
    const Mixer<T> m(c.shape, c.document);
    const DeltaShape& s = m.s;
    const Numbers<T> mixed(s.tokens() * s.mixed());
    cuda::causal_conv_forward<T>(mixed.data(), nullptr, m.projected.data(), m.conv_w.data(),
                                 nullptr, m.keys_there(), {}, s, nullptr);
    Doubles expected(m.mixed.host.size()), dx(m.projected.host.size()),
        of_w(m.conv_w.host.size(), 0.5);
    cpu::causal_conv_forward<double>(expected.data(), nullptr, m.projected.host.data(),
                                     m.conv_w.host.data(), nullptr, m.keys(), {}, s);
    EXPECT_TRUE(near(mixed, expected, kRounding<T> + 1e-5));

    const Input<T> d_mixed(s.tokens() * s.mixed(), 20);
    const Numbers<T> d_projected(s.tokens() * s.projected());
    const Numbers<float> dw = filled(s.mixed() * s.taps, 0.5);
    const DeviceArray<std::byte> work(cuda::causal_conv_backward_work(s));
    cuda::causal_conv_backward<T, float>(d_projected.data(), dw.data(), nullptr, d_mixed.data(),
                                         m.projected.data(), m.conv_w.data(), nullptr,
                                         m.keys_there(), s, work.data(), nullptr);
    cpu::causal_conv_backward<double>(dx.data(), of_w.data(), nullptr, d_mixed.host.data(),
                                      m.projected.host.data(), m.conv_w.host.data(), nullptr,
                                      m.keys(), s);
    EXPECT_TRUE(near(dw, of_w, 1e-4));
    const Doubles got = d_projected.values();
    EXPECT_TRUE(check::near(columns(got, s.projected(), 0, s.mixed()),
                            columns(dx, s.projected(), 0, s.mixed()), kRounding<T> + 1e-5));
    EXPECT_TRUE(none_is_written(columns(got, s.projected(), s.mixed(), s.projected())));
  }
}

TYPED_TEST(DeltaCuda, Rule) {
  using T = TypeParam;
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.shape.key_dim * 1000 + c.document);
    const Mixer<T> m(c.shape, c.document);
    const DeltaShape& s = m.s;
    const Numbers<T> y(s.tokens() * s.values());
    cuda::delta_rule_forward<T>(y.data(), m.mixed.data(), m.projected.data(), m.dt_bias.data(),
                                m.a_log.data(), m.keys_there(), {}, s, nullptr);
    EXPECT_TRUE(near(y, m.rule(), kRounding<T> + 1e-5));

    const Input<T> dy(s.tokens() * s.values(), 20);
    const Numbers<T> d_mixed(s.tokens() * s.mixed()), d_projected(s.tokens() * s.projected());
    const Numbers<float> d_bias = filled(s.value_heads, 0.5), d_a_log = filled(s.value_heads, 0.5);
    const DeviceArray<std::byte> work(cuda::delta_rule_backward_work(s));
    const auto run = [&] {
      cuda::delta_rule_backward(d_mixed.data(), d_projected.data(), d_bias.data(), d_a_log.data(),
                                dy.data(), m.mixed.data(), m.projected.data(), m.dt_bias.data(),
                                m.a_log.data(), m.keys_there(), s, work.data(), nullptr);
    };
    run();
    Doubles of_mixed(m.mixed.host.size()), of_projected(m.projected.host.size()),
        of_bias(m.dt_bias.host.size(), 0.5), of_a_log(of_bias);
    cpu::delta_rule_backward(of_mixed.data(), of_projected.data(), of_bias.data(), of_a_log.data(),
                             dy.host.data(), m.mixed.host.data(), m.projected.host.data(),
                             m.dt_bias.host.data(), m.a_log.host.data(), m.keys(), s);
    EXPECT_TRUE(near(d_mixed, of_mixed, kRounding<T> + 1e-4));
    EXPECT_TRUE(near(d_bias, of_bias, 1e-4));
    EXPECT_TRUE(near(d_a_log, of_a_log, 1e-4));
    const std::int64_t gates = s.beta_of_projected();
    const Doubles got = d_projected.values();
    EXPECT_TRUE(check::near(columns(got, s.projected(), gates, s.projected()),
                            columns(of_projected, s.projected(), gates, s.projected()),
                            kRounding<T> + 1e-4));
    EXPECT_TRUE(none_is_written(columns(got, s.projected(), 0, gates)));
    expect_same_bits(d_mixed, 2, run);
    expect_same_bits(d_projected, 1, run);
  }
}

TYPED_TEST(DeltaCuda, GradientsOfHeadsAreRoundedOnce) {
  if (!std::is_same_v<TypeParam, bf16>) GTEST_SKIP() << "of bf16 alone";
  const Mixer<bf16> m(shape(2, 131, 2, 4, 32, 32));
  const DeltaShape& s = m.s;
  const Input<bf16> dy(s.tokens() * s.values(), 20);
  const Numbers<bf16> d_mixed(s.tokens() * s.mixed()), d_projected(s.tokens() * s.projected());
  const DeviceArray<std::byte> work(cuda::delta_rule_backward_work(s));
  check::expect_one_rounding(2 * s.value_heads, [&]<class G>(G* sums) {
    cuda::delta_rule_backward(d_mixed.data(), d_projected.data(), sums, sums + s.value_heads,
                              dy.data(), m.mixed.data(), m.projected.data(), m.dt_bias.data(),
                              m.a_log.data(), m.keys_there(), s, work.data(), nullptr);
  });
}

// Pieces of sequences, with their states in slots of a cache between them, are the whole to the
// bit.
template <class T>
void check_pieces(const DeltaShape& whole, const std::vector<std::int64_t>& lengths) {
  const Mixer<T> m(whole);
  const DeltaShape& s = m.s;
  const Numbers<T> conv_cache(4 * (s.taps - 1) * s.mixed()), y(s.tokens() * s.values());
  const Numbers<float> states(4 * s.value_heads * s.state());
  const DeviceArray<std::int32_t> slots(std::vector<std::int32_t>{3, 1});
  Doubles mixed(m.mixed.host.size());
  cpu::causal_conv_forward<double>(mixed.data(), nullptr, m.projected.host.data(),
                                   m.conv_w.host.data(), nullptr, nullptr, {}, s);
  cuda::delta_rule_forward<T>(y.data(), m.mixed.data(), m.projected.data(), m.dt_bias.data(),
                              m.a_log.data(), nullptr, {}, s, nullptr);
  EXPECT_TRUE(near(y, m.rule(), kRounding<T> + 1e-5));
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    SCOPED_TRACE(begin);
    const auto rows_of = [&](const Doubles& all, std::int64_t width) {
      Doubles some;
      for (std::int64_t i = 0; i < s.sequences; ++i) {
        const auto first = all.begin() + (i * s.length + begin) * width;
        some.insert(some.end(), first, first + length * width);
      }
      return some;
    };
    DeltaShape piece = s;
    piece.length = length;
    std::vector<std::int32_t> at;
    for (std::int64_t i = 0; i < 2 * length; ++i)
      at.push_back(static_cast<std::int32_t>(begin + i % length));
    const DeviceArray<std::int32_t> positions(at);
    const CacheSlots slot{.positions = positions.data(), .slots = slots.data()};
    const Numbers<T> projected(rows_of(m.projected.host, s.projected()), 0),
        rows(rows_of(m.mixed.host, s.mixed()), 0), got(2 * length * s.mixed()),
        out(2 * length * s.values());
    cuda::causal_conv_forward<T>(got.data(), conv_cache.data(), projected.data(), m.conv_w.data(),
                                 nullptr, nullptr, slot, piece, nullptr);
    EXPECT_TRUE(near(got, rows_of(mixed, s.mixed()), kRounding<T> + 1e-5));
    cuda::delta_rule_forward<T>(out.data(), rows.data(), projected.data(), m.dt_bias.data(),
                                m.a_log.data(), nullptr, {states.data(), slot}, piece, nullptr);
    EXPECT_EQ(out.values(), rows_of(y.values(), s.values()));
    begin += length;
  }
  EXPECT_TRUE(std::isnan(states.values().front()));  // another's slot
  EXPECT_TRUE(std::isnan(conv_cache.values().front()));
}

TYPED_TEST(DeltaCuda, SequencesGoOnInPieces) {
  check_pieces<TypeParam>(shape(2, 40, 1, 2, 8, 16), {1, 20, 2, 1, 16});
  check_pieces<TypeParam>(shape(2, 40, 3, 6, 5, 7, 3), {1, 20, 2, 1, 16});
  check_pieces<TypeParam>(shape(2, 150, 2, 4, 128, 128), {40, 1, 1, 80, 28});
  check_pieces<TypeParam>(shape(2, 20, 1, 2, 256, 256), {17, 1, 1, 1});
}

TYPED_TEST(DeltaCuda, Norm) {
  using T = TypeParam;
  for (const Case& c : kCases)
    for (const bool zero_centered : {false, true}) {
      SCOPED_TRACE(c.shape.value_dim * 10 + zero_centered);
      const Mixer<T> m(c.shape);
      const DeltaShape& s = m.s;
      const DeltaNorm norm{.eps = 1e-5, .zero_centered = zero_centered};
      const std::int64_t count = s.tokens() * s.values(), heads = s.tokens() * s.value_heads;
      const Input<T> y(count, 20), d_out(count, 22);
      const Numbers<T> out(count), dy(count), d_projected(s.tokens() * s.projected());
      const Numbers<float> rstd(heads), dw = filled(s.value_dim, 0.5);
      cuda::delta_norm_forward(out.data(), rstd.data(), y.data(), m.projected.data(), m.norm.data(),
                               norm, s, nullptr);
      Doubles expected(y.host.size()), of_rstd(static_cast<std::size_t>(heads)),
          of_dy(y.host.size()), of_projected(m.projected.host.size()),
          of_w(m.norm.host.size(), 0.5);
      cpu::delta_norm_forward(expected.data(), of_rstd.data(), y.host.data(),
                              m.projected.host.data(), m.norm.host.data(), norm, s);
      EXPECT_TRUE(near(out, expected, kRounding<T> + 1e-5));
      EXPECT_TRUE(near(rstd, of_rstd, 1e-5));
      const DeviceArray<std::byte> work(cuda::delta_norm_backward_work(s));
      cuda::delta_norm_backward(dy.data(), d_projected.data(), dw.data(), d_out.data(), y.data(),
                                m.projected.data(), rstd.data(), m.norm.data(), norm, s,
                                work.data(), nullptr);
      cpu::delta_norm_backward(of_dy.data(), of_projected.data(), of_w.data(), d_out.host.data(),
                               y.host.data(), m.projected.host.data(), of_rstd.data(),
                               m.norm.host.data(), norm, s);
      EXPECT_TRUE(near(dy, of_dy, kRounding<T> + 1e-4));
      EXPECT_TRUE(near(dw, of_w, 1e-4));
      const std::int64_t z = s.z_of_projected(), behind = s.beta_of_projected();
      const Doubles got = d_projected.values();
      EXPECT_TRUE(check::near(columns(got, s.projected(), z, behind),
                              columns(of_projected, s.projected(), z, behind),
                              kRounding<T> + 1e-4));
      EXPECT_TRUE(none_is_written(columns(got, s.projected(), 0, z)));
      EXPECT_TRUE(none_is_written(columns(got, s.projected(), behind, s.projected())));
    }
}

TYPED_TEST(DeltaCuda, Gates) {
  using T = TypeParam;
  for (const auto& [groups, width, offset] : {std::array<std::int64_t, 3>{1, 1, 0},
                                              {70, 256, 0},
                                              {70, 256, 1},
                                              {33, 12, 0},
                                              {1000, 64, 0}}) {
    SCOPED_TRACE(groups * 10 + offset);
    const std::int64_t count = groups * width;
    const Input<T> x(count, 1, offset), g(count, 2, offset), dy(count, 3, offset),
        both(2 * count, 4, offset);
    const Numbers<T> y(count, offset), dg(count, offset), q(count, offset), gate(count, offset),
        merged(2 * count, offset);
    Doubles expected(x.host.size()), of_x(expected), of_g(expected), of_q(expected),
        of_gate(expected);
    cuda::output_gate_forward(y.data(), x.data(), g.data(), count, nullptr);
    cpu::output_gate_forward(expected.data(), x.host.data(), g.host.data(), count);
    EXPECT_TRUE(near(y, expected, kRounding<T> + 1e-6));
    // In place, as attention has it.
    cuda::output_gate_backward(dy.device.data(), dg.data(), dy.data(), x.data(), g.data(), count,
                               nullptr);
    cpu::output_gate_backward(of_x.data(), of_g.data(), dy.host.data(), x.host.data(),
                              g.host.data(), count);
    EXPECT_TRUE(near(dy.device, of_x, kRounding<T> + 1e-6));
    EXPECT_TRUE(near(dg, of_g, kRounding<T> + 1e-6));
    cuda::split_gates(q.data(), gate.data(), both.data(), groups, width, nullptr);
    cuda::merge_gates<T>(merged.data(), q.data(), gate.data(), groups, width, nullptr);
    cpu::split_gates(of_q.data(), of_gate.data(), both.host.data(), groups, width);
    EXPECT_EQ(q.values(), of_q);
    EXPECT_EQ(gate.values(), of_gate);
    EXPECT_EQ(merged.values(), both.host);
  }
}

}  // namespace
}  // namespace mt
