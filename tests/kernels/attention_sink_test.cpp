// Attention with sinks against families.md's numbers and its own formula.
#include "kernels/attention_sink.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/attention.h"

namespace mt {
namespace {

using Numbers = std::vector<double>;

Numbers sines(std::size_t count, double phase) {
  Numbers numbers(count);
  for (std::size_t i = 0; i < count; ++i)
    numbers[i] = std::sin(0.7 * static_cast<double>(i + 1) + 0.9 * phase);
  return numbers;
}

// Six tokens of four heads over two, of four channels.
struct Problem {
  AttentionShape shape{.sequences = 1,
                       .q_length = 6,
                       .kv_length = 6,
                       .kv_stride = 6,
                       .heads = 4,
                       .kv_heads = 2,
                       .head_dim = 4,
                       .scale = 0.5};
  Numbers q = sines(96, 0), k = sines(48, 1), v = sines(48, 2), sink{.3, -.5, 1, 0};
  Numbers o = Numbers(96), lse = Numbers(24);

  SinkShape of_sink() const {
    return {shape.sequences, shape.q_length, shape.heads, shape.head_dim};
  }
  void forward(bool learnt = true) {
    cpu::attention_forward(o.data(), lse.data(), q.data(), k.data(), v.data(), nullptr, shape, {});
    cpu::add_sink(o.data(), lse.data(), learnt ? sink.data() : nullptr, of_sink());
  }
  double sum(const Numbers& d_o) {
    forward();
    double total = 0;
    for (std::size_t i = 0; i < o.size(); ++i) total += d_o[i] * o[i];
    return total;
  }
  void expect(int query, int head, const Numbers& expected) const {
    for (int c = 0; c < 4; ++c)
      EXPECT_NEAR(o[static_cast<std::size_t>((query * 4 + head) * 4 + c)],
                  expected[static_cast<std::size_t>(c)], 1e-6);
  }
};

TEST(AttentionSink, NumbersOfOthers) {
  Problem p;
  p.forward();
  p.expect(5, 1, {.128013, .205810, .186812, .079953});
  p.forward(false);
  p.expect(5, 1, {.118398, .190352, .172781, .073948});
  p.shape.window = 2;
  p.forward();
  p.expect(5, 1, {-.330279, .131669, .531691, .681650});
  p.expect(0, 2, {-.158163, -.053100, .076937, .170790});
}

TEST(AttentionSink, LargeScoresDoNotOverflow) {
  Problem p;
  p.sink = {1000, -1000, 0, 0};
  p.forward();
  p.expect(3, 0, {0, 0, 0, 0});
  EXPECT_EQ(p.lse[0], 1000);
  Problem none;
  cpu::attention_forward(none.o.data(), none.lse.data(), none.q.data(), none.k.data(),
                         none.v.data(), nullptr, none.shape, {});
  p.expect(3, 1, {none.o.begin() + 52, none.o.begin() + 56});
}

TEST(AttentionSink, Derivatives) {
  Problem p;
  p.shape.window = 3;
  const Numbers d_o = sines(96, 3);
  p.forward();
  Numbers dq(96), dk(48), dv(48), d_sink(4);
  cpu::attention_backward(dq.data(), dk.data(), dv.data(), d_o.data(), p.o.data(), p.lse.data(),
                          p.q.data(), p.k.data(), p.v.data(), nullptr, p.shape, {});
  cpu::sink_backward(d_sink.data(), d_o.data(), p.o.data(), p.lse.data(), p.sink.data(),
                     p.of_sink());
  const auto check = [&](Numbers Problem::*of, const Numbers& gradient) {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      constexpr double kStep = 1e-6;
      Problem more = p, less = p;
      (more.*of)[i] += kStep;
      (less.*of)[i] -= kStep;
      EXPECT_NEAR(gradient[i], (more.sum(d_o) - less.sum(d_o)) / (2 * kStep), 1e-8) << i;
    }
  };
  check(&Problem::q, dq);
  check(&Problem::k, dk);
  check(&Problem::v, dv);
  check(&Problem::sink, d_sink);
}

}  // namespace
}  // namespace mt
