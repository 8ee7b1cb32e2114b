#include "kernels/attention.h"

#include "kernels/qkv.h"
#include "tests/kernels/check.h"

namespace mt {
namespace {

using check::random;

const StepRecord kRecord = {.first_sample = 40};
const Dropout kNone = {};
const Dropout kSome = {.p = 0.3, .key = RandomKey::make(77, 5), .record = &kRecord};

AttentionShape shape_of(std::int64_t sequences, std::int64_t q_length, std::int64_t kv_length,
                        std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
  return {.sequences = sequences,
          .q_length = q_length,
          .kv_length = kv_length,
          .kv_stride = kv_length,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .scale = 1 / std::sqrt(double(head_dim))};
}

using FirstKeys = std::vector<std::int32_t>;  // of each query; empty: 0

// Documents of 1, 2, ... `longest` tokens, and again, in each of the sequences.
FirstKeys documents(const AttentionShape& s, std::int64_t longest) {
  FirstKeys first;
  for (std::int64_t b = 0; b < s.sequences; ++b) {
    std::int64_t begin = 0, length = 1 + b;
    for (std::int64_t j = 0; j < s.kv_length; ++j) {
      if (j == begin + length) begin = j, length = length % longest + 1;
      if (j >= s.kv_length - s.q_length) first.push_back(static_cast<std::int32_t>(begin));
    }
  }
  return first;
}

std::int64_t q_size(const AttentionShape& s) {
  return s.sequences * s.q_length * s.heads * s.head_dim;
}
std::int64_t kv_size(const AttentionShape& s) {
  return s.sequences * s.kv_stride * s.kv_heads * s.head_dim;
}

template <class T>
struct Inputs {
  std::vector<T> q, k, v;
  explicit Inputs(const AttentionShape& s)
      : q(random<T>(q_size(s), 1, -2, 2)),
        k(random<T>(kv_size(s), 2, -2, 2)),
        v(random<T>(kv_size(s), 3)) {}
};

template <class T>
struct Outputs {
  std::vector<T> o, lse;
};

template <class T>
Outputs<T> forward(const std::vector<T>& q, const std::vector<T>& k, const std::vector<T>& v,
                   const AttentionShape& s, const Dropout& dropout, const FirstKeys& first = {}) {
  Outputs<T> out{std::vector<T>(q.size()), std::vector<T>(s.sequences * s.heads * s.q_length)};
  cpu::attention_forward(out.o.data(), out.lse.data(), q.data(), k.data(), v.data(),
                         first.empty() ? nullptr : first.data(), s, dropout);
  return out;
}

double dropout_factor(const Dropout& d, std::int64_t sequence, std::int64_t head, std::int64_t i,
                      std::int64_t j) {
  if (d.p == 0) return 1;
  const auto word = [](std::int64_t x) { return static_cast<std::uint32_t>(x); };
  const Counter words = philox<7>(
      {word(j / 8), word(i), word(1 + head), word(d.record->first_sample + sequence)}, d.key);
  const std::uint32_t half = j % 2 == 1 ? words[j % 8 / 2] >> 16 : words[j % 8 / 2] & 0xffff;
  const double threshold = std::round(d.p * 65536);
  return half < threshold ? 0 : 1 / (1 - threshold / 65536);
}

// One query, straight from the formula.
template <class T>
void naive_row(const Inputs<T>& in, const AttentionShape& s, const Dropout& dropout,
               const FirstKeys& first_key, std::int64_t b, std::int64_t h, std::int64_t i,
               Outputs<double>& out) {
  const std::int64_t d = s.head_dim, own = i + (s.causal ? s.kv_length - s.q_length : 0);
  const auto document = [&](std::int64_t query) {
    return first_key.empty() ? 0 : first_key[b * s.q_length + query];
  };
  const auto seen = [&](std::int64_t j) {
    if (s.window >= 0 && std::abs(j - own) > s.window) return false;
    return s.causal ? document(i) <= j && j <= own
                    : first_key.empty() || document(j) == document(i);
  };
  const T* q = &in.q[((b * s.q_length + i) * s.heads + h) * d];
  const auto kv = [&](std::int64_t j) {
    return ((b * s.kv_stride + j) * s.kv_heads + h / (s.heads / s.kv_heads)) * d;
  };
  std::vector<double> p(s.kv_length);
  double total = 0;
  for (std::int64_t j = 0; j < s.kv_length; ++j) {
    if (!seen(j)) continue;
    double score = 0;
    for (std::int64_t c = 0; c < d; ++c) score += double(q[c]) * in.k[kv(j) + c];
    const T bias =
        s.bias == nullptr
            ? 0
            : static_cast<const T*>(s.bias)[h * (2 * s.kv_length - 1) + s.kv_length - 1 + j - own];
    score = s.scale * score + bias;
    if (s.softcap != 0) score = s.softcap * std::tanh(score / s.softcap);
    total += p[j] = std::exp(score);
  }
  for (std::int64_t j = 0; j < s.kv_length; ++j)
    for (std::int64_t c = 0; c < d; ++c)
      out.o[((b * s.q_length + i) * s.heads + h) * d + c] +=
          p[j] / total * dropout_factor(dropout, b, h, i, j) * in.v[kv(j) + c];
  out.lse[(b * s.heads + h) * s.q_length + i] = std::log(total);
}

template <class T>
void check_forward(const AttentionShape& s, const Dropout& dropout, const FirstKeys& first = {}) {
  const Inputs<T> in(s);
  Outputs<double> expected{std::vector<double>(in.q.size()),
                           std::vector<double>(s.sequences * s.heads * s.q_length)};
  for (std::int64_t b = 0; b < s.sequences; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t i = 0; i < s.q_length; ++i)
        naive_row(in, s, dropout, first, b, h, i, expected);
  const auto got = forward(in.q, in.k, in.v, s, dropout, first);
  EXPECT_TRUE(check::near(got.o, expected.o))
      << "o, " << s.q_length << " queries, " << s.kv_length << " keys";
  EXPECT_TRUE(check::near(got.lse, expected.lse))
      << "lse, " << s.q_length << " queries, " << s.kv_length << " keys";
}

template <class T>
class AttentionTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionTest, Types);

// Dropout that is asked for drops something, however little; the mean stays.
TEST(HalfThreshold, IsZeroForNoDropoutAlone) {
  EXPECT_EQ(HalfThreshold(0).value, 0u);
  EXPECT_EQ(HalfThreshold(0).factor, 1);
  EXPECT_EQ(HalfThreshold(1e-9).value, 1u);
  EXPECT_EQ(HalfThreshold(0.25).value, 1u << 14);
  EXPECT_EQ(HalfThreshold(0.25).factor, 1 / 0.75);
  EXPECT_EQ(HalfThreshold(0.9999999).value, 0xffffu);
  EXPECT_EQ(HalfThreshold(0.9999999).factor, 65536);
}

TYPED_TEST(AttentionTest, OddLengths) {
  for (const std::int64_t length : {0, 1, 31, 33, 64, 65, 200})
    for (const Dropout& dropout : {kNone, kSome})
      check_forward<TypeParam>(shape_of(2, length, length, 2, 2, 7), dropout);
}

TYPED_TEST(AttentionTest, GroupedQueries) {
  for (const std::int64_t kv_heads : {1, 2, 3, 6})
    for (const Dropout& dropout : {kNone, kSome})
      check_forward<TypeParam>(shape_of(2, 70, 70, 6, kv_heads, 16), dropout);
}

TYPED_TEST(AttentionTest, KeyCache) {
  for (const std::int64_t q_length : {1, 5, 65})
    for (const std::int64_t kv_length : {65, 66, 200}) {
      AttentionShape s = shape_of(2, q_length, kv_length, 4, 2, 8);
      s.kv_stride = kv_length + 13;
      check_forward<TypeParam>(s, kNone);
    }
}

TYPED_TEST(AttentionTest, Documents) {
  for (const std::int64_t length : {1, 31, 64, 200})
    for (const std::int64_t longest : {1, 5, 40, 150})
      for (const Dropout& dropout : {kNone, kSome}) {
        const AttentionShape s = shape_of(2, length, length, 2, 1, 16);
        check_forward<TypeParam>(s, dropout, documents(s, longest));
      }
}

TYPED_TEST(AttentionTest, Windows) {
  for (const std::int64_t window : {0, 1, 17, 63, 64, 100, 300}) {
    AttentionShape s = shape_of(2, 200, 200, 2, 2, 16);
    s.window = window;
    check_forward<TypeParam>(s, kSome);
    check_forward<TypeParam>(s, kNone, documents(s, 90));
  }
}

TYPED_TEST(AttentionTest, DocumentsAndWindowsInAKeyCache) {
  for (const std::int64_t q_length : {1, 5, 65}) {
    AttentionShape s = shape_of(2, q_length, 200, 4, 2, 16);
    s.kv_stride = 210;
    check_forward<TypeParam>(s, kNone, documents(s, 70));
    s.window = 30;
    check_forward<TypeParam>(s, kNone, documents(s, 70));
  }
}

AttentionShape full(AttentionShape s, std::int64_t window = -1) {
  s.causal = false;
  s.window = window;
  return s;
}

TYPED_TEST(AttentionTest, NotCausal) {
  for (const std::int64_t length : {0, 1, 31, 64, 65, 200})
    for (const Dropout& dropout : {kNone, kSome})
      check_forward<TypeParam>(full(shape_of(2, length, length, 4, 2, 16)), dropout);
  check_forward<TypeParam>(full(shape_of(2, 70, 70, 6, 3, 7)), kSome);
}

TYPED_TEST(AttentionTest, NotCausalWithDocumentsAndWindows) {
  for (const std::int64_t window : {-1, 0, 1, 17, 64, 100, 300})
    for (const std::int64_t longest : {1, 5, 40, 150}) {
      const AttentionShape s = full(shape_of(2, 200, 200, 2, 1, 16), window);
      check_forward<TypeParam>(s, longest == 5 ? kSome : kNone, documents(s, longest));
      if (longest == 1) check_forward<TypeParam>(s, kNone);
    }
}

TYPED_TEST(AttentionTest, NotCausalWithOtherKeysThanQueries) {
  for (const std::int64_t q_length : {1, 5, 65, 200})
    for (const std::int64_t kv_length : {1, 33, 64, 130})
      for (const Dropout& dropout : {kNone, kSome}) {
        AttentionShape s = full(shape_of(2, q_length, kv_length, 4, 2, 16));
        check_forward<TypeParam>(s, dropout);
        s.kv_stride += 13;
        check_forward<TypeParam>(s, dropout);
      }
}

// Sequences with lengths of their own are as each alone would be.
TYPED_TEST(AttentionTest, LengthsOfTheirOwn) {
  AttentionShape s = shape_of(3, 5, 200, 4, 2, 16);
  const Inputs<TypeParam> in(s);
  const std::vector<std::int32_t> lengths = {200, 5, 66};
  s.kv_lengths = lengths.data();
  const auto got = forward(in.q, in.k, in.v, s, kNone);
  const auto row = [](const std::vector<TypeParam>& x, std::size_t b) {
    const auto size = static_cast<std::ptrdiff_t>(x.size() / 3);
    return std::vector<TypeParam>(x.begin() + std::ptrdiff_t(b) * size,
                                  x.begin() + std::ptrdiff_t(b + 1) * size);
  };
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    AttentionShape alone = shape_of(1, 5, lengths[b], 4, 2, 16);
    alone.kv_stride = s.kv_stride;
    const auto expected = forward(row(in.q, b), row(in.k, b), row(in.v, b), alone, kNone);
    EXPECT_EQ(row(got.o, b), expected.o) << b;
    EXPECT_EQ(row(got.lse, b), expected.lse) << b;
  }
}

// What lies before a document does not matter, not even a NaN: whole blocks of it are not read.
TYPED_TEST(AttentionTest, BlocksBeforeTheFirstKeyAreNotRead) {
  const AttentionShape s = shape_of(1, 256, 256, 1, 1, 16);
  FirstKeys first(256, 0);
  std::fill(first.begin() + 128, first.end(), 128);
  Inputs<TypeParam> in(s);
  std::fill_n(in.k.begin(), 128 * 16, std::numeric_limits<TypeParam>::quiet_NaN());
  std::fill_n(in.v.begin(), 128 * 16, std::numeric_limits<TypeParam>::quiet_NaN());
  const auto got = forward(in.q, in.k, in.v, s, kNone, first);
  for (std::size_t i = 128 * 16; i < got.o.size(); ++i) ASSERT_FALSE(std::isnan(got.o[i])) << i;
}

TYPED_TEST(AttentionTest, LargeScoresDoNotOverflow) {
  AttentionShape s = shape_of(1, 130, 130, 1, 1, 4);
  s.scale = 300;
  const Inputs<TypeParam> in(s);
  const auto got = forward(in.q, in.k, in.v, s, kNone);
  for (const auto value : got.o) EXPECT_LE(std::abs(value), 1);  // a mean of values of v
}

template <class T>
struct Gradient {
  std::vector<T> dq, dk, dv;
};

template <class T>
Gradient<T> backward(const std::vector<T>& d_o, const Inputs<T>& in, const AttentionShape& s,
                     const Dropout& dropout, const FirstKeys& first = {}) {
  const auto saved = forward(in.q, in.k, in.v, s, dropout, first);
  const T junk = std::numeric_limits<T>::quiet_NaN();  // gradients are overwritten
  Gradient<T> g{std::vector<T>(in.q.size(), junk), std::vector<T>(in.k.size(), junk),
                std::vector<T>(in.v.size(), junk)};
  cpu::attention_backward(g.dq.data(), g.dk.data(), g.dv.data(), d_o.data(), saved.o.data(),
                          saved.lse.data(), in.q.data(), in.k.data(), in.v.data(),
                          first.empty() ? nullptr : first.data(), s, dropout);
  return g;
}

void check_derivatives(const AttentionShape& s, const Dropout& dropout,
                       const FirstKeys& first = {}) {
  const Inputs<double> in(s);
  const auto d_o = random<double>(q_size(s), 4);
  const auto g = backward(d_o, in, s, dropout, first);
  const auto f = [&](const auto& q, const auto& k, const auto& v) {
    return check::dot(d_o, forward(q, k, v, s, dropout, first).o);
  };
  check::expect_gradient(
      g.dq, [&](const auto& at) { return f(at, in.k, in.v); }, in.q, 5);
  check::expect_gradient(
      g.dk, [&](const auto& at) { return f(in.q, at, in.v); }, in.k, 6);
  check::expect_gradient(
      g.dv, [&](const auto& at) { return f(in.q, in.k, at); }, in.v, 7);
}

TEST(Attention, Derivatives) {
  for (const std::int64_t length : {1, 31, 33, 65, 140})
    for (const Dropout& dropout : {kNone, kSome})
      check_derivatives(shape_of(2, length, length, 4, 2, 6), dropout);
}

TEST(Attention, DerivativesWithDocumentsAndWindows) {
  for (const std::int64_t window : {-1, 20})
    for (const std::int64_t longest : {3, 40, 200}) {
      AttentionShape s = shape_of(2, 140, 140, 4, 2, 6);
      s.window = window;
      check_derivatives(s, kSome, documents(s, longest));
    }
}

TEST(Attention, DerivativesNotCausal) {
  for (const std::int64_t length : {1, 33, 140})
    check_derivatives(full(shape_of(2, length, length, 4, 2, 6)), kSome);
  for (const std::int64_t window : {-1, 20})
    for (const std::int64_t longest : {3, 40, 200}) {
      const AttentionShape s = full(shape_of(2, 140, 140, 4, 2, 6), window);
      check_derivatives(s, kSome, documents(s, longest));
    }
  check_derivatives(full(shape_of(2, 33, 70, 4, 2, 6)), kSome);
  check_derivatives(full(shape_of(2, 70, 33, 4, 2, 6)), kNone);
}

TEST(Attention, DerivativesWithLengthsOfTheirOwn) {
  const std::vector<std::int32_t> lengths = {70, 1, 33};
  for (const std::int64_t q_length : {1, 33, 90})
    for (const Dropout& dropout : {kNone, kSome}) {
      AttentionShape s = full(shape_of(3, q_length, 70, 4, 2, 6));
      s.kv_lengths = lengths.data();
      check_derivatives(s, dropout);
      const auto g = backward(random<double>(q_size(s), 4), Inputs<double>(s), s, dropout);
      const std::size_t key = g.dk.size() / (3 * 70);
      for (const auto* gradient : {&g.dk, &g.dv})
        for (std::size_t i = (70 + 1) * key; i < 2 * 70 * key; ++i) ASSERT_EQ((*gradient)[i], 0);
    }
}

void check_float_backward(const AttentionShape& s, const Dropout& dropout,
                          const FirstKeys& first = {}) {
  const Inputs<float> in(s);
  Inputs<double> in_d(s);
  in_d.q = check::convert<double>(in.q);
  in_d.k = check::convert<double>(in.k);
  in_d.v = check::convert<double>(in.v);
  const auto d_o = random<float>(q_size(s), 4);
  const auto g = backward(d_o, in, s, dropout, first);
  const auto g_d = backward(check::convert<double>(d_o), in_d, s, dropout, first);
  EXPECT_TRUE(check::near(g.dq, g_d.dq, 5e-6));
  EXPECT_TRUE(check::near(g.dk, g_d.dk, 5e-6));
  EXPECT_TRUE(check::near(g.dv, g_d.dv, 5e-6));
}

TEST(Attention, FloatBackwardFollowsDouble) {
  AttentionShape s = shape_of(2, 130, 130, 4, 2, 32);
  for (const Dropout& dropout : {kNone, kSome}) check_float_backward(s, dropout);
  s = shape_of(2, 300, 300, 2, 1, 16);
  for (const std::int64_t window : {-1, 0, 70, 128})
    for (const std::int64_t longest : {1, 10, 100, 250}) {
      s.window = window;
      check_float_backward(s, kSome, documents(s, longest));
    }
}

TEST(Attention, FloatBackwardFollowsDoubleNotCausal) {
  for (const Dropout& dropout : {kNone, kSome})
    for (const auto& [queries, keys] : {std::pair{130, 130}, {65, 200}, {200, 70}, {5, 1}})
      check_float_backward(full(shape_of(2, queries, keys, 4, 2, 32)), dropout);
  for (const std::int64_t window : {-1, 0, 70, 128})
    for (const std::int64_t longest : {1, 10, 100, 250}) {
      const AttentionShape s = full(shape_of(2, 300, 300, 2, 1, 16), window);
      check_float_backward(s, kSome, documents(s, longest));
    }
  const std::vector<std::int32_t> lengths = {200, 1, 66};
  AttentionShape padded = full(shape_of(3, 65, 200, 4, 2, 32));
  padded.kv_lengths = lengths.data();
  for (const Dropout& dropout : {kNone, kSome}) check_float_backward(padded, dropout);
}

// --- Biases -------------------------------------------------------------------------------------

template <class T>
std::vector<T> bias_of(const AttentionShape& s) {
  return random<T>(s.heads * (2 * s.kv_length - 1), 8, -2, 2);
}

TYPED_TEST(AttentionTest, Bias) {
  for (const bool causal : {true, false})
    for (const Dropout& dropout : {kNone, kSome}) {
      AttentionShape s = shape_of(2, 70, 70, 4, 2, 16);
      s.causal = causal;
      const auto bias = bias_of<TypeParam>(s);
      s.bias = bias.data();
      check_forward<TypeParam>(s, dropout);
      check_forward<TypeParam>(s, dropout, documents(s, 20));
    }
  AttentionShape cached = shape_of(2, 5, 70, 4, 2, 16);
  const auto bias = bias_of<TypeParam>(cached);
  cached.bias = bias.data();
  check_forward<TypeParam>(cached, kNone);
}

// --- Softcaps -----------------------------------------------------------------------------------

TYPED_TEST(AttentionTest, Softcap) {
  AttentionShape s = shape_of(2, 70, 70, 4, 2, 16);
  s.softcap = 0.7;
  check_forward<TypeParam>(s, kNone);
  s.window = 20;
  check_forward<TypeParam>(s, kSome, documents(s, 30));
}

TEST(Attention, DerivativesWithSoftcap) {
  AttentionShape s = shape_of(2, 33, 33, 4, 2, 6);
  s.softcap = 0.7;
  for (const Dropout& dropout : {kNone, kSome}) check_derivatives(s, dropout);
}

template <class T>
std::vector<T> bias_backward(const std::vector<T>& d_o, const Inputs<T>& in,
                             const AttentionShape& s, const Dropout& dropout) {
  const auto saved = forward(in.q, in.k, in.v, s, dropout);
  std::vector<T> d_bias(s.heads * (2 * s.kv_length - 1), std::numeric_limits<T>::quiet_NaN());
  cpu::attention_bias_backward(d_bias.data(), d_o.data(), saved.o.data(), saved.lse.data(),
                               in.q.data(), in.k.data(), in.v.data(), nullptr, s, dropout);
  return d_bias;
}

TEST(Attention, DerivativesWithBias) {
  const std::vector<std::int32_t> lengths = {33, 1, 20};
  for (const bool causal : {true, false})
    for (const Dropout& dropout : {kNone, kSome}) {
      AttentionShape s = shape_of(3, 33, 33, 4, 2, 6);
      s.causal = causal;
      if (!causal) s.kv_lengths = lengths.data();
      const auto bias = bias_of<double>(s);
      s.bias = bias.data();
      const Inputs<double> in(s);
      const auto d_o = random<double>(q_size(s), 4);
      check_derivatives(s, dropout);
      check::expect_gradient(
          bias_backward(d_o, in, s, dropout),
          [&](const auto& at) {
            AttentionShape moved = s;
            moved.bias = at.data();
            return check::dot(d_o, forward(in.q, in.k, in.v, moved, dropout).o);
          },
          bias, 9);
    }
}

TEST(Attention, SameBitsOnAnyThreads) {
  const AttentionShape s = shape_of(3, 150, 150, 4, 2, 16);
  const Inputs<float> in(s);
  const auto d_o = random<float>(q_size(s), 4);
  check::expect_same_on_any_threads([&] { return forward(in.q, in.k, in.v, s, kSome).o; });
  check::expect_same_on_any_threads([&] { return backward(d_o, in, s, kSome).dq; });
  check::expect_same_on_any_threads([&] { return backward(d_o, in, s, kSome).dk; });
  const FirstKeys first = documents(s, 60);
  check::expect_same_on_any_threads([&] { return backward(d_o, in, s, kSome, first).dk; });
}

// From a fused projection's rows every bit is what it is from separate tensors.
template <class T>
void check_packed(AttentionShape s, const Dropout& dropout) {
  const Inputs<T> in(s);
  const FirstKeys first = documents(s, 9);
  const std::vector<T> d_o = random<T>(q_size(s), 4);
  const auto run = [&](std::int64_t k_at, T* dq, T* dk, T* dv, const T* q, const T* k, const T* v) {
    s.packed = k_at > 0;
    Outputs<T> out{std::vector<T>(d_o.size()), std::vector<T>(s.sequences * s.heads * s.q_length)};
    cpu::attention_forward(out.o.data(), out.lse.data(), q, k, v, first.data(), s, dropout);
    cpu::attention_backward(dq, dk, dv, d_o.data(), out.o.data(), out.lse.data(), q, k, v,
                            first.data(), s, dropout);
    return out;
  };
  std::vector<T> dq(in.q.size()), dk(in.k.size()), dv(in.k.size());
  const Outputs<T> apart =
      run(0, dq.data(), dk.data(), dv.data(), in.q.data(), in.k.data(), in.v.data());
  const QkvShape rows{s.sequences * s.q_length, s.heads, s.kv_heads, s.head_dim};
  std::vector<T> qkv(in.q.size() + 2 * in.k.size()), dqkv(qkv.size()), expected(qkv.size());
  cpu::qkv_merge(qkv.data(), in.q.data(), in.k.data(), in.v.data(), rows);
  cpu::qkv_merge(expected.data(), dq.data(), dk.data(), dv.data(), rows);
  const std::int64_t k_at = s.group() * s.head_dim, v_at = k_at + s.head_dim;
  const Outputs<T> packed = run(k_at, dqkv.data(), dqkv.data() + k_at, dqkv.data() + v_at,
                                qkv.data(), qkv.data() + k_at, qkv.data() + v_at);
  EXPECT_TRUE(check::same_bits(packed.o, apart.o));
  EXPECT_TRUE(check::same_bits(packed.lse, apart.lse));
  EXPECT_TRUE(check::same_bits(dqkv, expected));
}

// From the rows of a projection to keys and values every bit is what it is from separate tensors.
TEST(Attention, PairedAsApart) {
  const AttentionShape apart = full(shape_of(2, 33, 70, 4, 2, 16));
  AttentionShape paired = apart;
  paired.paired = true;
  const Inputs<float> in(apart);
  const auto d_o = random<float>(q_size(apart), 4);
  const std::int64_t d = apart.head_dim;
  const auto pair_of = [&](const std::vector<float>& k, const std::vector<float>& v) {
    std::vector<float> both;
    for (auto i = k.begin(), j = v.begin(); i != k.end(); i += d, j += d) {
      both.insert(both.end(), i, i + d);
      both.insert(both.end(), j, j + d);
    }
    return both;
  };
  const Outputs<float> expected = forward(in.q, in.k, in.v, apart, kSome);
  const Gradient<float> g = backward(d_o, in, apart, kSome);
  const std::vector<float> kv = pair_of(in.k, in.v);
  std::vector<float> o(expected.o.size()), lse(expected.lse.size()), dq(o.size()), dkv(kv.size());
  cpu::attention_forward(o.data(), lse.data(), in.q.data(), kv.data(), kv.data() + d, nullptr,
                         paired, kSome);
  cpu::attention_backward(dq.data(), dkv.data(), dkv.data() + d, d_o.data(), o.data(), lse.data(),
                          in.q.data(), kv.data(), kv.data() + d, nullptr, paired, kSome);
  EXPECT_TRUE(check::same_bits(o, expected.o));
  EXPECT_TRUE(check::same_bits(dq, g.dq));
  EXPECT_TRUE(check::same_bits(dkv, pair_of(g.dk, g.dv)));
}

TEST(Attention, PackedAsApart) {
  for (const std::int64_t head_dim : {3, 16, 64})
    for (const std::int64_t kv_heads : {2, 6})
      for (const Dropout& dropout : {kNone, kSome}) {
        SCOPED_TRACE(testing::Message() << head_dim << " channels, " << kv_heads << " key heads");
        check_packed<float>(shape_of(2, 70, 70, 6, kv_heads, head_dim), dropout);
        check_packed<double>(shape_of(2, 33, 33, 6, kv_heads, head_dim), dropout);
        check_packed<float>(full(shape_of(2, 70, 70, 6, kv_heads, head_dim)), dropout);
      }
}

}  // namespace
}  // namespace mt
