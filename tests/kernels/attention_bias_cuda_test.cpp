// Attention with a bias of relative positions, and its gradient down to the table, on the GPU
// against the CPU's in double, on the same numbers.
#include <cuda_fp16.h>

#include "kernels/attention.h"
#include "kernels/relative_bias.h"
#include "tests/kernels/check.h"
#include "tests/kernels/device_array.h"

namespace mt {
namespace {

using bf16 = __nv_bfloat16;
using check::DeviceArray;

struct Case {
  std::int64_t sequences, length, heads, kv_heads, head_dim;
  bool causal = false;
  double dropout = 0;
};

AttentionShape shape_of(const Case& c) {
  return {.sequences = c.sequences,
          .q_length = c.length,
          .kv_length = c.length,
          .kv_stride = c.length,
          .heads = c.heads,
          .kv_heads = c.kv_heads,
          .head_dim = c.head_dim,
          .causal = c.causal,
          .scale = 1 / std::sqrt(static_cast<double>(c.head_dim))};
}

RelativeShape relative(const Case& c) {
  return {.length = c.length,
          .heads = c.heads,
          .all_heads = c.heads + 3,
          .first_head = 2,
          .buckets = RelativeBuckets(32, 128, !c.causal)};
}

// Multiples of 1/64, which all types hold exactly.
std::vector<double> random(std::int64_t count, unsigned seed) {
  std::vector<double> x = check::random<double>(count, seed, -2, 2);
  for (double& value : x) value = std::round(value * 64) / 64;
  return x;
}

struct Inputs {
  explicit Inputs(const Case& c)
      : q(random(c.sequences * c.length * c.heads * c.head_dim, 1)),
        k(random(c.sequences * c.length * c.kv_heads * c.head_dim, 2)),
        v(random(std::ssize(k), 3)),
        d_o(random(std::ssize(q), 4)),
        table(random(32 * (c.heads + 3), 5)) {
    for (std::int64_t b = 0; b < c.sequences && !c.causal; ++b)
      lengths.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(1, c.length - 7 * b)));
  }
  std::vector<double> q, k, v, d_o, table;
  std::vector<std::int32_t> lengths;
};

struct Results {
  std::vector<double> o, dq, d_bias, d_table;
};

Results on_cpu(const Case& c, const Inputs& in, const Dropout& dropout) {
  AttentionShape s = shape_of(c);
  const RelativeShape r = relative(c);
  std::vector<double> bias(static_cast<std::size_t>(c.heads * r.span())), dk(in.k), dv(in.v),
      lse(static_cast<std::size_t>(c.sequences * c.heads * c.length));
  Results results{in.q, in.q, bias, std::vector<double>(in.table.size())};
  cpu::relative_bias(bias.data(), in.table.data(), r);
  s.bias = bias.data();
  if (!c.causal) s.kv_lengths = in.lengths.data();
  cpu::attention_forward(results.o.data(), lse.data(), in.q.data(), in.k.data(), in.v.data(),
                         nullptr, s, dropout);
  cpu::attention_backward(results.dq.data(), dk.data(), dv.data(), in.d_o.data(), results.o.data(),
                          lse.data(), in.q.data(), in.k.data(), in.v.data(), nullptr, s, dropout);
  cpu::attention_bias_backward(results.d_bias.data(), in.d_o.data(), results.o.data(), lse.data(),
                               in.q.data(), in.k.data(), in.v.data(), nullptr, s, dropout);
  cpu::relative_bias_backward(results.d_table.data(), results.d_bias.data(), r);
  return results;
}

template <class T>
DeviceArray<T> on_device(const std::vector<double>& x) {
  std::vector<T> y;
  for (const double value : x) y.push_back(T(static_cast<float>(value)));
  return DeviceArray<T>(y);
}

template <class T>
Results on_gpu(const Case& c, const Inputs& in, Dropout dropout, const StepRecord& record) {
  AttentionShape s = shape_of(c);
  const RelativeShape r = relative(c);
  const DeviceArray<StepRecord> step(std::vector<StepRecord>{record});
  dropout.record = step.data();
  const DeviceArray<T> q = on_device<T>(in.q), k = on_device<T>(in.k), v = on_device<T>(in.v),
                       d_o = on_device<T>(in.d_o), table = on_device<T>(in.table), o(in.q.size()),
                       dq(in.q.size()), dk(in.k.size()), dv(in.k.size());
  const DeviceArray<float> bias(static_cast<std::size_t>(c.heads * r.span())),
      d_bias(static_cast<std::size_t>(c.heads * r.span())),
      lse(static_cast<std::size_t>(c.sequences * c.heads * c.length)),
      d_table(std::vector<float>(in.table.size()));
  const DeviceArray<std::int32_t> lengths(in.lengths);
  cuda::relative_bias(bias.data(), table.data(), r, nullptr);
  s.bias = bias.data();
  if (!c.causal) s.kv_lengths = lengths.data();
  const DeviceArray<unsigned char> work(
      std::max({cuda::attention_forward_work<T>(s), cuda::attention_backward_work<T>(s),
                cuda::attention_bias_backward_work<T>(s)}));
  cuda::attention_forward<T>(o.data(), lse.data(), q.data(), k.data(), v.data(), nullptr, s,
                             dropout, work.data(), nullptr);
  cuda::attention_backward<T>(dq.data(), dk.data(), dv.data(), d_o.data(), o.data(), lse.data(),
                              q.data(), k.data(), v.data(), nullptr, s, dropout, work.data(),
                              nullptr);
  cuda::attention_bias_backward<T>(d_bias.data(), d_o.data(), o.data(), lse.data(), q.data(),
                                   k.data(), v.data(), nullptr, s, dropout, work.data(), nullptr);
  cuda::relative_bias_backward<float>(d_table.data(), d_bias.data(), r, nullptr);
  check::check_cuda(cudaDeviceSynchronize());
  const std::vector<float> first = d_bias.values();
  cuda::attention_bias_backward<T>(d_bias.data(), d_o.data(), o.data(), lse.data(), q.data(),
                                   k.data(), v.data(), nullptr, s, dropout, work.data(), nullptr);
  check::check_cuda(cudaDeviceSynchronize());
  EXPECT_EQ(d_bias.values(), first) << "of the same numbers";
  const auto wide = [](const auto& array) {
    std::vector<double> y;
    for (const auto value : array.values()) y.push_back(static_cast<double>(float(value)));
    return y;
  };
  return {wide(o), wide(dq), wide(d_bias), wide(d_table)};
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                 double tolerance, const char* what) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(size)) << what;  // of one token 0 both
}

template <class T>
void expect_as_on_cpu(const Case& c, double tolerance) {
  if (check::skips<T>()) return;
  SCOPED_TRACE(testing::Message() << c.length << " tokens, " << c.head_dim << " channels of "
                                  << sizeof(T) << " bytes" << (c.causal ? ", causal" : ""));
  const Inputs in(c);
  const StepRecord record{.first_sample = 40};
  const Dropout dropout{.p = c.dropout, .key = RandomKey::make(77, 5), .record = &record};
  const Results expected = on_cpu(c, in, dropout), got = on_gpu<T>(c, in, dropout, record);
  expect_near(got.o, expected.o, tolerance, "o");
  expect_near(got.dq, expected.dq, 2 * tolerance, "dq");
  expect_near(got.d_bias, expected.d_bias, 3 * tolerance, "d_bias");
  expect_near(got.d_table, expected.d_table, 3 * tolerance, "d_table");
}

TEST(AttentionBiasCuda, AgreesWithTheCpu) {
  if (!check::has_gpu()) GTEST_SKIP() << "no GPU";
  for (const bool causal : {false, true})
    for (const Case& c :
         {Case{1, 1, 1, 1, 64}, Case{2, 5, 3, 1, 64}, Case{2, 129, 4, 4, 64, false, 0.2},
          Case{3, 200, 4, 2, 128}, Case{1, 70, 2, 1, 7, false, 0.3}, Case{1, 513, 2, 2, 256},
          Case{9, 300, 6, 3, 64, false, 0.1}, Case{2, 64, 2, 2, 256, false, 0.1}}) {
      Case masked = c;
      masked.causal = causal;
      expect_as_on_cpu<float>(masked, 2e-6);
      expect_as_on_cpu<__half>(masked, 1e-3);
      expect_as_on_cpu<bf16>(masked, 8e-3);
    }
}

}  // namespace
}  // namespace mt
