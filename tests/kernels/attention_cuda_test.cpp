// Attention on the GPU against the CPU's in double, on the same numbers.  MT_KERNELS=generic has
// all of it done by the kernels that every GPU has.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/attention.h"
#include "kernels/qkv.h"
#include "tests/kernels/check.h"
#include "tests/kernels/device_array.h"

namespace mt {
namespace {

using bf16 = __nv_bfloat16;
using check::DeviceArray;

struct Case {
  std::int64_t sequences, length, heads, kv_heads, head_dim;
  std::int64_t longest_document = 0, window = -1;  // 0, -1: no limit
  double dropout = 0;
  std::int64_t cached = 0;   // tokens before the queries
  bool own_lengths = false;  // sequence b has b tokens less than that
  bool causal = true;
  double softcap = 0;
  std::int64_t values = 0;  // channels before the zeros of v and do; 0: there are none
};

// The same without the causal mask; `cached` is then how many keys there are more than queries.
Case full(Case c) {
  c.causal = false;
  return c;
}

bool forward_only(const Case& c) { return c.causal && c.cached > 0; }

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.sequences << " x " << c.length << ", heads " << c.heads << "/" << c.kv_heads << " of "
       << c.head_dim << ", documents to " << c.longest_document << ", window " << c.window
       << ", dropout " << c.dropout << ", " << c.cached << " cached"
       << (c.own_lengths ? " at most" : "") << (c.causal ? "" : ", not causal") << ", softcap "
       << c.softcap << ", values " << c.values;
}

AttentionShape shape_of(const Case& c) {
  return {.sequences = c.sequences,
          .q_length = c.length,
          .kv_length = c.cached + c.length,
          .kv_stride = c.cached + c.length + (forward_only(c) ? 5 : 0),
          .heads = c.heads,
          .kv_heads = c.kv_heads,
          .head_dim = c.head_dim,
          .values = c.values,
          .first_head = 3,
          .window = c.window,
          .causal = c.causal,
          .scale = 1 / std::sqrt(static_cast<double>(c.head_dim)),
          .softcap = c.softcap};
}

std::vector<std::int32_t> lengths_of(const Case& c) {
  std::vector<std::int32_t> lengths;
  for (std::int64_t b = 0; b < c.sequences; ++b)
    lengths.push_back(static_cast<std::int32_t>(c.cached + c.length - (c.own_lengths ? b : 0)));
  return lengths;
}

// Documents of 1, 2, ... tokens up to the longest, and again.
std::vector<std::int32_t> first_keys(const Case& c) {
  std::vector<std::int32_t> first;
  for (std::int64_t b = 0; b < c.sequences && c.longest_document > 0; ++b) {
    std::int64_t begin = 0, length = 1 + b;
    const std::int64_t own = c.cached - (c.own_lengths ? b : 0);  // where the queries begin
    for (std::int64_t j = 0; j < own + c.length; ++j) {
      if (j == begin + length) begin = j, length = length % c.longest_document + 1;
      if (j >= own) first.push_back(static_cast<std::int32_t>(begin));
    }
  }
  return first;
}

// Multiples of 1/64, which all types hold exactly.
std::vector<double> random(std::int64_t count, unsigned seed) {
  std::vector<double> x = check::random<double>(count, seed, -2, 2);
  for (double& value : x) value = std::round(value * 64) / 64;
  return x;
}

// A problem on the host in double.
struct Problem {
  explicit Problem(const Case& c)
      : shape(shape_of(c)),
        first(first_keys(c)),
        lengths(lengths_of(c)),
        dropout{.p = c.dropout, .key = RandomKey::make(77, 5), .record = &record},
        q(random(c.sequences * c.length * c.heads * c.head_dim, 1)),
        k(random(c.sequences * shape.kv_stride * c.kv_heads * c.head_dim, 2)),
        v(random(std::ssize(k), 3)),
        d_o(random(std::ssize(q), 4)),
        lse_size(static_cast<std::size_t>(c.sequences * c.heads * c.length)),
        packs(c.cached == 0 && !c.own_lengths),
        forward_only(mt::forward_only(c)),
        own_lengths(c.own_lengths) {
    for (std::vector<double>* x : {&v, &d_o})
      for (std::size_t i = 0; i < x->size(); ++i)
        if (behind_values(i)) (*x)[i] = 0;
  }

  // Whether an element, of a tensor of heads, is of a channel behind the values.
  bool behind_values(std::size_t i) const {
    return static_cast<std::int64_t>(i) % shape.head_dim >= shape.value_channels();
  }

  const StepRecord record{.first_sample = 40};
  AttentionShape shape;
  std::vector<std::int32_t> first, lengths;
  Dropout dropout;
  std::vector<double> q, k, v, d_o;
  std::size_t lse_size;
  bool packs, forward_only, own_lengths;
};

// Its results: on the host from double, or from T on the device.
struct Results {
  std::vector<double> o, lse, dq, dk, dv;
};

Results on_cpu(const Problem& p) {
  Results r{std::vector<double>(p.q.size()), std::vector<double>(p.lse_size),
            std::vector<double>(p.q.size()), std::vector<double>(p.k.size()),
            std::vector<double>(p.k.size())};
  AttentionShape shape = p.shape;
  if (p.own_lengths) shape.kv_lengths = p.lengths.data();
  const std::int32_t* first = p.first.empty() ? nullptr : p.first.data();
  cpu::attention_forward(r.o.data(), r.lse.data(), p.q.data(), p.k.data(), p.v.data(), first, shape,
                         p.dropout);
  if (!p.forward_only)
    cpu::attention_backward(r.dq.data(), r.dk.data(), r.dv.data(), p.d_o.data(), r.o.data(),
                            r.lse.data(), p.q.data(), p.k.data(), p.v.data(), first, shape,
                            p.dropout);
  return r;
}

template <class T>
std::vector<T> rounded(const std::vector<double>& x) {
  std::vector<T> y;
  for (const double value : x) y.push_back(T(static_cast<float>(value)));
  return y;
}

template <class T>
struct OnDevice {
  explicit OnDevice(const Problem& p)
      : shape(p.shape),
        dropout(p.dropout),
        record(std::vector<StepRecord>{p.record}),
        first(p.first),
        lengths(p.lengths),
        q(rounded<T>(p.q)),
        k(rounded<T>(p.k)),
        v(rounded<T>(p.v)),
        d_o(rounded<T>(p.d_o)),
        o(p.q.size()),
        dq(p.q.size()),
        dk(p.k.size()),
        dv(p.k.size()),
        lse(p.lse_size) {
    dropout.record = record.data();
    if (p.own_lengths) shape.kv_lengths = lengths.data();
    if (!p.first.empty()) first_key = first.data();
  }

  void forward() {
    const DeviceArray<unsigned char> work(cuda::attention_forward_work<T>(shape));
    cuda::attention_forward(o.data(), lse.data(), q.data(), k.data(), v.data(), first_key, shape,
                            dropout, work.data(), nullptr);
    check::check_cuda(cudaDeviceSynchronize());
  }
  void backward() {
    const DeviceArray<unsigned char> work(cuda::attention_backward_work<T>(shape));
    cuda::attention_backward(dq.data(), dk.data(), dv.data(), d_o.data(), o.data(), lse.data(),
                             q.data(), k.data(), v.data(), first_key, shape, dropout, work.data(),
                             nullptr);
    check::check_cuda(cudaDeviceSynchronize());
  }

  AttentionShape shape;
  Dropout dropout;
  DeviceArray<StepRecord> record;
  DeviceArray<std::int32_t> first, lengths;
  const std::int32_t* first_key = nullptr;
  DeviceArray<T> q, k, v, d_o, o, dq, dk, dv;
  DeviceArray<float> lse;
};

// ||got - expected|| / ||expected||; where all is 0, ||got||.
template <class T>
double relative_error(const std::vector<T>& got, const std::vector<double>& expected) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double d = static_cast<double>(static_cast<float>(got[i])) - expected[i];
    difference += d * d;
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference) /
         (size > 1e-12 * static_cast<double>(expected.size()) ? std::sqrt(size) : 1.0);
}

// The same from a fused projection's rows: every bit is the same.
template <class T>
void expect_same_packed(OnDevice<T>& apart) {
  AttentionShape shape = apart.shape;
  shape.packed = true;
  const QkvShape rows{shape.sequences * shape.q_length, shape.heads, shape.kv_heads,
                      shape.head_dim};
  const std::size_t q_size = apart.q.values().size(), k_size = apart.k.values().size();
  const DeviceArray<T> qkv(q_size + 2 * k_size), dqkv(q_size + 2 * k_size), o(q_size), dq(q_size),
      dk(k_size), dv(k_size);
  const DeviceArray<float> lse(apart.lse.values().size());
  const DeviceArray<unsigned char> work(
      std::max(cuda::attention_forward_work<T>(shape), cuda::attention_backward_work<T>(shape)));
  const std::int64_t k_at = shape.group() * shape.head_dim, v_at = k_at + shape.head_dim;
  cuda::qkv_merge<T>(qkv.data(), apart.q.data(), apart.k.data(), apart.v.data(), rows, nullptr);
  cuda::attention_forward<T>(o.data(), lse.data(), qkv.data(), qkv.data() + k_at, qkv.data() + v_at,
                             apart.first_key, shape, apart.dropout, work.data(), nullptr);
  cuda::attention_backward<T>(dqkv.data(), dqkv.data() + k_at, dqkv.data() + v_at, apart.d_o.data(),
                              o.data(), lse.data(), qkv.data(), qkv.data() + k_at,
                              qkv.data() + v_at, apart.first_key, shape, apart.dropout, work.data(),
                              nullptr);
  cuda::qkv_split<T>(dq.data(), dk.data(), dv.data(), dqkv.data(), rows, nullptr);
  check::check_cuda(cudaDeviceSynchronize());
  EXPECT_TRUE(check::same_bits(o.values(), apart.o.values()));
  EXPECT_TRUE(check::same_bits(lse.values(), apart.lse.values()));
  EXPECT_TRUE(check::same_bits(dq.values(), apart.dq.values()));
  EXPECT_TRUE(check::same_bits(dk.values(), apart.dk.values()));
  EXPECT_TRUE(check::same_bits(dv.values(), apart.dv.values()));
}

template <class T>
void expect_zeros_behind_values(const Problem& problem, const std::vector<T>& x) {
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_FALSE(problem.behind_values(i) && static_cast<float>(x[i]) != 0) << i;
}

class AttentionCuda : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!check::has_gpu()) GTEST_SKIP() << "no GPU";
  }
};

template <class T>
void expect_near(const Problem& problem, const Results& expected, double tolerance) {
  if (check::skips<T>()) return;
  OnDevice<T> device(problem);
  device.forward();
  EXPECT_LT(relative_error(device.o.values(), expected.o), tolerance);
  EXPECT_LT(relative_error(device.lse.values(), expected.lse), 1e-5);
  expect_zeros_behind_values(problem, device.o.values());
  if (problem.forward_only) return;
  device.backward();
  expect_zeros_behind_values(problem, device.dv.values());
  EXPECT_LT(relative_error(device.dq.values(), expected.dq), 1.5 * tolerance);
  EXPECT_LT(relative_error(device.dk.values(), expected.dk), 1.5 * tolerance);
  EXPECT_LT(relative_error(device.dv.values(), expected.dv), 1.5 * tolerance);
  if (problem.packs) expect_same_packed(device);
}

// Rounding the probabilities and the results leaves errors near the type's own; a float's also grow
// with the root of how many are added, here beyond the 2049 that a query of 4097 sees on average.
TEST_P(AttentionCuda, AgreesWithTheCpu) {
  const Problem problem(GetParam());
  const Results expected = on_cpu(problem);
  {
    SCOPED_TRACE("float");
    const auto keys = static_cast<double>(problem.shape.kv_length);
    const double seen = problem.shape.causal ? 1 : std::max(1.0, keys / 2049);
    expect_near<float>(problem, expected, 4e-6 * std::sqrt(seen));
  }
  {
    SCOPED_TRACE("half");
    expect_near<__half>(problem, expected, 5e-4);
  }
  {
    SCOPED_TRACE("bf16");
    expect_near<bf16>(problem, expected, 4e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionCuda,
    testing::Values(Case{1, 1, 1, 1, 128}, Case{1, 31, 3, 1, 128}, Case{2, 127, 3, 3, 128},
                    Case{1, 129, 40, 8, 128}, Case{2, 256, 2, 1, 128}, Case{1, 2050, 2, 1, 128},
                    Case{2, 500, 2, 1, 128, 37}, Case{1, 1000, 2, 2, 128, 300},
                    Case{1, 1000, 2, 1, 128, 0, 100}, Case{2, 700, 2, 1, 128, 400, 200},
                    Case{1, 130, 2, 1, 128, 0, -1, 0.3}, Case{2, 400, 4, 2, 128, 90, 64, 0.1},
                    Case{1, 1, 1, 1, 64}, Case{1, 31, 3, 1, 64}, Case{2, 127, 3, 3, 64},
                    Case{1, 129, 40, 8, 64}, Case{1, 193, 2, 1, 64}, Case{1, 4097, 1, 1, 64},
                    Case{2, 500, 2, 1, 64, 37}, Case{1, 1000, 2, 1, 64, 0, 100},
                    Case{1, 130, 2, 1, 64, 0, -1, 0.3}, Case{2, 400, 4, 2, 64, 90, 64, 0.1}));

INSTANTIATE_TEST_SUITE_P(
    OtherHeads, AttentionCuda,
    testing::Values(Case{1, 1, 1, 1, 256}, Case{2, 33, 3, 1, 32}, Case{1, 129, 6, 2, 80},
                    Case{2, 127, 5, 5, 96}, Case{1, 300, 3, 1, 192}, Case{2, 129, 4, 2, 256},
                    Case{1, 63, 3, 1, 7}, Case{2, 65, 6, 2, 33}, Case{1, 97, 2, 1, 161},
                    Case{2, 300, 6, 2, 96, 70, 60, 0.2}, Case{2, 200, 2, 1, 256, 50, 40, 0.3},
                    Case{1, 130, 2, 2, 40, 0, -1, 0.3}, Case{1, 1000, 6, 2, 80, 300},
                    Case{1, 600, 2, 1, 8, 0, 100}, Case{1, 1025, 3, 3, 96}, Case{1, 1, 1, 1, 192},
                    Case{1, 31, 3, 1, 256}, Case{2, 127, 3, 3, 192}, Case{1, 1025, 2, 1, 256},
                    Case{2, 700, 4, 2, 192, 300, 200}, Case{1, 1000, 2, 2, 256, 0, 100},
                    Case{1, 257, 6, 2, 160, 90, -1, 0.1}, Case{1, 513, 3, 3, 200}));

// The same with values narrower than keys.
Case narrowed(Case c, std::int64_t values) {
  c.values = values;
  return c;
}

INSTANTIATE_TEST_SUITE_P(
    NarrowValues, AttentionCuda,
    testing::Values(
        narrowed({1, 1, 1, 1, 192}, 128), narrowed({1, 31, 3, 1, 192}, 128),
        narrowed({2, 127, 3, 3, 192}, 128), narrowed({1, 300, 40, 40, 192}, 128),
        narrowed({1, 2050, 2, 2, 192}, 128), narrowed({2, 700, 4, 2, 192, 300, 200}, 128),
        narrowed({2, 400, 4, 4, 192, 90, 64, 0.1}, 128),
        narrowed({1, 4, 3, 1, 192, 0, 100, 0, 3000}, 128),
        narrowed({1, 100, 4, 2, 192, 0, -1, 0, 255}, 128),
        narrowed(full({1, 300, 3, 3, 192, 70, 30}), 128), narrowed(full({2, 700, 3, 3, 192}), 128),
        narrowed(full({1, 500, 2, 1, 192, 0, -1, 0.2, -371}), 128),
        narrowed(full({2, 33, 4, 2, 192, 0, -1, 0, 1967}), 128),
        narrowed(full({2, 700, 4, 1, 192, 300, 200}), 128),
        narrowed({1, 257, 6, 2, 160, 90, -1, 0.1}, 100), narrowed({1, 257, 3, 3, 144}, 8),
        narrowed({1, 257, 3, 3, 192}, 136), narrowed({1, 257, 3, 3, 256}, 128),
        narrowed({2, 127, 3, 3, 128}, 64), narrowed({2, 127, 3, 3, 48}, 33)));

INSTANTIATE_TEST_SUITE_P(
    Caches, AttentionCuda,
    testing::Values(Case{1, 1, 8, 2, 128, 0, -1, 0, 1000}, Case{3, 1, 3, 1, 64, 0, -1, 0, 77},
                    Case{2, 5, 4, 2, 128, 0, -1, 0, 31}, Case{1, 200, 2, 1, 64, 0, -1, 0, 300},
                    Case{2, 33, 4, 2, 96, 40, 20, 0, 65}, Case{1, 1, 6, 2, 256, 0, 30, 0, 200},
                    Case{3, 1, 8, 2, 128, 0, -1, 0, 500, true},
                    Case{1, 1, 1, 1, 33, 0, -1, 0, 5000}, Case{2, 2, 16, 2, 64, 3000, -1, 0, 4000},
                    Case{1, 4, 3, 1, 192, 0, 100, 0, 3000},
                    Case{70, 1, 4, 4, 64, 0, -1, 0, 400, true},
                    Case{4, 3, 6, 3, 64, 100, 50, 0, 250, true}));

// The same with scores that are held below this.
Case capped(Case c, double softcap) {
  c.softcap = softcap;
  return c;
}

INSTANTIATE_TEST_SUITE_P(Capped, AttentionCuda,
                         testing::Values(capped({2, 127, 3, 3, 64}, 1.5),
                                         capped({1, 1000, 2, 1, 128, 0, 100}, 5),
                                         capped({2, 400, 4, 2, 256, 90, 64, 0.1}, 2),
                                         capped({1, 97, 2, 1, 33}, 3),
                                         capped({2, 33, 4, 2, 256, 40, 20, 0, 65}, 2),
                                         capped({3, 1, 8, 2, 128, 0, -1, 0, 500, true}, 2),
                                         capped({1, 5, 4, 2, 96, 0, 30, 0, 700}, 0.7)));

INSTANTIATE_TEST_SUITE_P(
    NotCausal, AttentionCuda,
    testing::Values(full({1, 1, 1, 1, 128}), full({1, 31, 3, 1, 128}), full({2, 127, 3, 3, 128}),
                    full({1, 129, 40, 8, 128}), full({2, 256, 2, 1, 128}),
                    full({1, 2050, 2, 1, 128}), full({2, 500, 2, 1, 128, 37}),
                    full({1, 1000, 2, 2, 128, 300}), full({1, 1000, 2, 1, 128, 0, 100}),
                    full({2, 700, 2, 1, 128, 400, 200}), full({1, 130, 2, 1, 128, 0, -1, 0.3}),
                    full({2, 400, 4, 2, 128, 90, 64, 0.1}), full({1, 1, 1, 1, 64}),
                    full({2, 127, 3, 3, 64}), full({1, 193, 2, 1, 64}), full({1, 4097, 1, 1, 64}),
                    full({2, 500, 2, 1, 64, 37}), full({1, 1000, 2, 1, 64, 0, 100}),
                    full({1, 130, 2, 1, 64, 0, -1, 0.3}), full({2, 400, 4, 2, 64, 90, 64, 0.1}),
                    full({2, 127, 5, 5, 96}), full({1, 300, 3, 1, 192, 70, 30}),
                    full({2, 129, 4, 2, 256}), full({2, 65, 6, 2, 33, 20}),
                    full({2, 200, 2, 1, 256, 50, 40, 0.3}), full({2, 700, 4, 2, 192, 300, 200}),
                    full({1, 1000, 2, 2, 256, 0, 100}), full({1, 300, 6, 2, 80, 0, 0}),
                    full({1, 1100, 6, 2, 64, 0, -1, 0.2}), full({2, 700, 3, 3, 96})));

// Other keys than queries.
INSTANTIATE_TEST_SUITE_P(Cross, AttentionCuda,
                         testing::Values(full({2, 129, 4, 2, 128, 0, -1, 0, 371}),
                                         full({2, 500, 4, 2, 128, 0, -1, 0, -371}),
                                         full({1, 1, 2, 2, 128, 0, -1, 0, 299}),
                                         full({1, 300, 2, 2, 64, 0, -1, 0, -299}),
                                         full({2, 129, 4, 2, 64, 0, -1, 0.2, 371}),
                                         full({2, 2050, 3, 1, 64, 0, -1, 0, -1985}),
                                         full({1, 65, 3, 3, 96, 0, -1, 0.2, 100}),
                                         full({2, 33, 4, 2, 256, 0, -1, 0, 67}),
                                         full({1, 500, 2, 1, 192, 0, -1, 0, -371}),
                                         full({1, 70, 2, 1, 7, 0, -1, 0, -37}),
                                         full({3, 1, 8, 2, 128, 0, -1, 0, 500, true}),
                                         full({4, 30, 6, 3, 64, 0, -1, 0, 250, true})));

// In every second head of keys, those before the middle and those after it give scores of about
// 16 / sqrt(head_dim) times these numbers.
void set_apart(Problem& p, double before, double after) {
  const AttentionShape& s = p.shape;
  for (std::size_t i = 0; i < p.q.size(); i += static_cast<std::size_t>(s.head_dim)) p.q[i] = 16;
  for (std::int64_t row = 0; row < s.sequences * s.kv_stride; ++row)
    for (std::int64_t head = 1; head < s.kv_heads; head += 2)
      p.k[static_cast<std::size_t>((row * s.kv_heads + head) * s.head_dim)] =
          row % s.kv_stride < s.kv_length / 2 ? before : after;
}

// A row's largest score comes late or early, far from the others, or is below 0 as all of them are.
TEST_F(AttentionCuda, ScoresFarApart) {
  if (const char* why = check::skips<bf16>()) GTEST_SKIP() << why;
  for (const std::int64_t head_dim : {64, 128, 192, 256})
    for (const Case& c :
         {Case{2, 700, 4, 2, head_dim}, Case{1, 900, 6, 2, head_dim, 400, 500, 0.2},
          Case{1, 100, 4, 2, head_dim, 0, -1, 0, 255}, full({2, 300, 40, 20, head_dim}),
          full({2, 500, 4, 2, head_dim, 300, 200}), full({1, 300, 4, 4, head_dim, 0, -1, 0, 371})})
      for (const auto& [before, after] : {std::pair{-4.0, 4.0},
                                          {12.0, -12.0},
                                          {-125.0, 125.0},
                                          {125.0, -125.0},
                                          {-4.0, -30.0},
                                          {-30.0, -4.0}}) {
        SCOPED_TRACE(testing::PrintToString(c) + ", " + std::to_string(before) + " and " +
                     std::to_string(after));
        Problem problem(c);
        set_apart(problem, before, after);
        problem.forward_only = true;
        const Results expected = on_cpu(problem);
        OnDevice<bf16> device(problem);
        device.forward();
        const std::vector<bf16> o = device.o.values();
        EXPECT_LT(relative_error(o, expected.o), 4e-3);
        EXPECT_LT(relative_error(device.lse.values(), expected.lse), 1e-5);
        device.forward();
        EXPECT_TRUE(check::same_bits(device.o.values(), o));
      }
}

// The lengths of a cache are read when a captured graph runs.
TEST_F(AttentionCuda, ReplaysWithOtherLengths) {
  if (const char* why = check::skips<bf16>()) GTEST_SKIP() << why;
  Problem problem({3, 1, 8, 2, 128, 0, -1, 0, 999, true});
  OnDevice<bf16> device(problem);
  const DeviceArray<unsigned char> work(cuda::attention_forward_work<bf16>(device.shape));
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t captured;
  check::check_cuda(cudaStreamCreate(&stream));
  check::check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  cuda::attention_forward(device.o.data(), device.lse.data(), device.q.data(), device.k.data(),
                          device.v.data(), nullptr, device.shape, device.dropout, work.data(),
                          stream);
  check::check_cuda(cudaStreamEndCapture(stream, &graph));
  check::check_cuda(cudaGraphInstantiate(&captured, graph, 0));
  for (const std::int32_t length : {1, 2, 16, 17, 300, 998}) {
    problem.lengths = {length, 2 * length % 1000 + 1, 1000};
    check::check_cuda(cudaMemcpy(device.lengths.data(), problem.lengths.data(),
                                 device.lengths.bytes(), cudaMemcpyHostToDevice));
    check::check_cuda(cudaGraphLaunch(captured, stream));
    check::check_cuda(cudaStreamSynchronize(stream));
    const Results expected = on_cpu(problem);
    EXPECT_LT(relative_error(device.o.values(), expected.o), 4e-3) << length;
    EXPECT_LT(relative_error(device.lse.values(), expected.lse), 1e-5) << length;
  }
  check::check_cuda(cudaGraphExecDestroy(captured));
  check::check_cuda(cudaGraphDestroy(graph));
  check::check_cuda(cudaStreamDestroy(stream));
}

// Every sum has one order, however blocks are timed.
template <class T>
void expect_same_bits(const Case& c) {
  if (check::skips<T>()) return;
  const Problem problem(c);
  OnDevice<T> device(problem);
  device.forward();
  if (!problem.forward_only) device.backward();
  std::vector<T> seen;  // in pages that are there: fresh ones would take most of the test's time
  const auto same = [&](const DeviceArray<T>& now, const std::vector<T>& before) {
    seen.resize(before.size());
    check::check_cuda(cudaMemcpy(seen.data(), now.data(), now.bytes(), cudaMemcpyDeviceToHost));
    return check::same_bits(seen, before);
  };
  const std::vector<T> o = device.o.values(), dq = device.dq.values(), dk = device.dk.values(),
                       dv = device.dv.values();
  for (int i = 0; i < 1000; ++i) {
    device.forward();
    ASSERT_TRUE(same(device.o, o)) << "repetition " << i;
    if (problem.forward_only) continue;
    device.backward();
    ASSERT_TRUE(same(device.dq, dq) && same(device.dk, dk) && same(device.dv, dv))
        << "repetition " << i;
  }
}

class AttentionCudaThousandTimes : public testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Heads, AttentionCudaThousandTimes, testing::Values(64, 96, 128, 192, 256),
                         [](const auto& head_dim) {
                           return "Of" + std::to_string(head_dim.param);
                         });

TEST_P(AttentionCudaThousandTimes, GivesTheSameBits) {
  if (!check::has_gpu()) GTEST_SKIP() << "no GPU";
  const std::int64_t head_dim = GetParam();
  expect_same_bits<bf16>({1, 1024, 8, 4, head_dim});
  expect_same_bits<__half>({1, 300, 4, 2, head_dim});
  expect_same_bits<float>({1, 300, 4, 2, head_dim});
  expect_same_bits<bf16>({2, 1, 8, 2, head_dim, 0, -1, 0, 3000});
  expect_same_bits<bf16>(full({1, 1024, 8, 4, head_dim}));
  expect_same_bits<bf16>(full({1, 1000, 2, 1, head_dim, 300, 200}));
}

TEST_F(AttentionCuda, GivesTheSameBitsOfLatentHeadsAThousandTimes) {
  const Case latent{1, 1024, 40, 40, 192, 0, -1, 0, 0, false, true, 0, 128};
  expect_same_bits<bf16>(latent);
  expect_same_bits<bf16>(full(latent));
}

}  // namespace
}  // namespace mt
