// Attention on the GPU against the CPU's in double, on the same bf16 numbers.
#include <cuda_bf16.h>

#include "kernels/attention.h"
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
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.sequences << " x " << c.length << ", heads " << c.heads << "/" << c.kv_heads << " of "
       << c.head_dim << ", documents to " << c.longest_document << ", window " << c.window
       << ", dropout " << c.dropout;
}

AttentionShape shape_of(const Case& c) {
  return {.sequences = c.sequences,
          .q_length = c.length,
          .kv_length = c.length,
          .kv_stride = c.length,
          .heads = c.heads,
          .kv_heads = c.kv_heads,
          .head_dim = c.head_dim,
          .window = c.window,
          .scale = 1 / std::sqrt(static_cast<double>(c.head_dim))};
}

// Documents of 1, 2, ... tokens up to the longest, and again.
std::vector<std::int32_t> first_keys(const Case& c) {
  std::vector<std::int32_t> first;
  for (std::int64_t b = 0; b < c.sequences && c.longest_document > 0; ++b) {
    std::int64_t begin = 0, length = 1 + b;
    for (std::int64_t j = 0; j < c.length; ++j) {
      if (j == begin + length) begin = j, length = length % c.longest_document + 1;
      first.push_back(static_cast<std::int32_t>(begin));
    }
  }
  return first;
}

std::vector<bf16> random(std::int64_t count, unsigned seed) {
  std::vector<bf16> x;
  for (const float value : check::random<float>(count, seed, -2, 2))
    x.push_back(__float2bfloat16(value));
  return x;
}

std::vector<double> as_double(const std::vector<bf16>& x) {
  std::vector<double> y;
  for (const bf16 value : x) y.push_back(__bfloat162float(value));
  return y;
}

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

// A problem and its results, on the host in double and on the device.
struct Problem {
  explicit Problem(const Case& c)
      : shape(shape_of(c)),
        q_size(c.sequences * c.length * c.heads * c.head_dim),
        kv_size(c.sequences * c.length * c.kv_heads * c.head_dim),
        first(first_keys(c)),
        q(random(q_size, 1)),
        k(random(kv_size, 2)),
        v(random(kv_size, 3)),
        d_o(random(q_size, 4)),
        device_first(first),
        device_q(q),
        device_k(k),
        device_v(v),
        device_do(d_o),
        o(q_size),
        dq(q_size),
        dk(kv_size),
        dv(kv_size),
        lse(c.sequences * c.heads * c.length),
        work(std::max(cuda::attention_forward_work(shape), cuda::attention_backward_work(shape))),
        dropout{.p = c.dropout, .key = RandomKey::make(77, 5), .record = device_record.data()} {}

  void forward() {
    cuda::attention_forward(o.data(), lse.data(), device_q.data(), device_k.data(), device_v.data(),
                            first_key(device_first.data()), shape, dropout, work.data(), nullptr);
    check::check_cuda(cudaDeviceSynchronize());
  }
  void backward() {
    cuda::attention_backward(dq.data(), dk.data(), dv.data(), device_do.data(), o.data(),
                             lse.data(), device_q.data(), device_k.data(), device_v.data(),
                             first_key(device_first.data()), shape, dropout, work.data(), nullptr);
    check::check_cuda(cudaDeviceSynchronize());
  }
  const std::int32_t* first_key(const std::int32_t* keys) const {
    return first.empty() ? nullptr : keys;
  }

  const StepRecord record{.first_sample = 40};
  DeviceArray<StepRecord> device_record{std::vector<StepRecord>{record}};
  AttentionShape shape;
  std::int64_t q_size, kv_size;
  std::vector<std::int32_t> first;
  std::vector<bf16> q, k, v, d_o;
  DeviceArray<std::int32_t> device_first;
  DeviceArray<bf16> device_q, device_k, device_v, device_do, o, dq, dk, dv;
  DeviceArray<float> lse;
  DeviceArray<unsigned char> work;
  Dropout dropout;
};

class AttentionCuda : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!check::has_gpu()) GTEST_SKIP() << "no GPU";
  }
};

// bf16 keeps 8 bits: rounding the probabilities and the results leaves errors near 2^-9.
TEST_P(AttentionCuda, AgreesWithTheCpu) {
  Problem problem(GetParam());
  problem.forward();
  problem.backward();

  const AttentionShape& s = problem.shape;
  const std::vector<double> q = as_double(problem.q), k = as_double(problem.k),
                            v = as_double(problem.v), d_o = as_double(problem.d_o);
  std::vector<double> o(q.size()), lse(problem.lse.values().size()), dq(q.size()), dk(k.size()),
      dv(v.size());
  Dropout dropout = problem.dropout;
  dropout.record = &problem.record;
  const std::int32_t* first = problem.first_key(problem.first.data());
  cpu::attention_forward(o.data(), lse.data(), q.data(), k.data(), v.data(), first, s, dropout);
  cpu::attention_backward(dq.data(), dk.data(), dv.data(), d_o.data(), o.data(), lse.data(),
                          q.data(), k.data(), v.data(), first, s, dropout);
  EXPECT_LT(relative_error(problem.o.values(), o), 4e-3);
  EXPECT_LT(relative_error(problem.lse.values(), lse), 1e-5);
  EXPECT_LT(relative_error(problem.dq.values(), dq), 6e-3);
  EXPECT_LT(relative_error(problem.dk.values(), dk), 6e-3);
  EXPECT_LT(relative_error(problem.dv.values(), dv), 6e-3);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionCuda,
    testing::Values(Case{1, 1, 1, 1, 128}, Case{1, 31, 3, 1, 128}, Case{2, 127, 3, 3, 128},
                    Case{1, 129, 40, 8, 128}, Case{2, 256, 2, 1, 128}, Case{1, 2050, 2, 1, 128},
                    Case{1, 4097, 1, 1, 128}, Case{2, 500, 2, 1, 128, 37},
                    Case{1, 1000, 2, 2, 128, 300}, Case{1, 1000, 2, 1, 128, 0, 100},
                    Case{2, 700, 2, 1, 128, 400, 200}, Case{1, 130, 2, 1, 128, 0, -1, 0.3},
                    Case{2, 400, 4, 2, 128, 90, 64, 0.1}, Case{1, 1, 1, 1, 64},
                    Case{1, 31, 3, 1, 64}, Case{2, 127, 3, 3, 64}, Case{1, 129, 40, 8, 64},
                    Case{1, 193, 2, 1, 64}, Case{1, 2050, 2, 1, 64}, Case{1, 4097, 1, 1, 64},
                    Case{2, 500, 2, 1, 64, 37}, Case{1, 1000, 2, 1, 64, 0, 100},
                    Case{1, 130, 2, 1, 64, 0, -1, 0.3}, Case{2, 400, 4, 2, 64, 90, 64, 0.1}));

// Blocks add to dQ in one order, however they are timed.
TEST_F(AttentionCuda, GivesTheSameBitsAThousandTimes) {
  for (const std::int64_t head_dim : {64, 128}) {
    Problem problem({2, 2048, 16, 8, head_dim});
    problem.forward();
    problem.backward();
    const auto bits = [&] {
      std::vector<bf16> all = problem.dq.values();
      for (const auto& part : {problem.dk.values(), problem.dv.values()})
        all.insert(all.end(), part.begin(), part.end());
      return all;
    };
    const std::vector<bf16> expected = bits();
    for (int i = 0; i < 1000; ++i) {
      problem.backward();
      ASSERT_TRUE(check::same_bits(bits(), expected)) << "repetition " << i;
    }
  }
}

}  // namespace
}  // namespace mt
