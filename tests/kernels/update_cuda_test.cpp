// The optimizers' steps on the GPU against the CPU's in double, and what comes before them.
#include "kernels/update.h"

#include "kernels/adam.h"
#include "kernels/sgd.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::bf16;
using check::DeviceArray;
using check::Input;
using check::Numbers;

template <class T>
class UpdateCuda : public check::CudaTest<T> {};  // T: of the model's copy
TYPED_TEST_SUITE(UpdateCuda, check::ElementTypes);

// Chunks that do not touch, some of them at odd places; what lies between stays as it is.
constexpr UpdateChunk kChunks[] = {{0, 7, 1, 1, 1},           {4, 12, 31, 0.5, 1},
                                   {36, 100, 4096, 1, 0},     {4135, 4200, 33, 2, 0.5},
                                   {4168, 4236, 20000, 1, 1}, {24169, 24240, 7, 1, 1}};
constexpr std::int64_t kSize = 24300;
const StepRecord kRecord{.learning_rate = 0.01,
                         .weight_decay = 0.1,
                         .bias_correction1 = 0.271,
                         .bias_correction2 = 0.0297,
                         .gradient_scale = 0.3};

struct OnDevice {
  DeviceArray<UpdateChunk> chunks{{std::begin(kChunks), std::end(kChunks)}};
  DeviceArray<StepRecord> record{std::vector<StepRecord>{kRecord}};
  DeviceArray<std::int32_t> skip;
  explicit OnDevice(bool skipped) : skip(std::vector<std::int32_t>{skipped}) {}
};

// The new p where a chunk lies, else what a copy was.
template <class T>
void expect_copy(const Numbers<T>& copy, const std::vector<double>& p,
                 const std::vector<double>& old) {
  std::vector<double> expected = old;
  for (const UpdateChunk& c : kChunks)
    std::copy_n(p.begin() + c.state, c.count, expected.begin() + c.first);
  EXPECT_TRUE(near(copy, expected));
}

template <class Moment, class T>
void check_adam(bool skipped) {
  const OnDevice device(skipped);
  Input<float> p(kSize, 1), g(kSize, 2);
  Input<Moment> m(kSize, 3), v(kSize, 4, 0, 0, 1);
  const Input<T> copy(kSize, 5);
  const AdamOptions options{.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
  cuda::adam(p.device.data(), m.device.data(), v.device.data(), copy.device.data(), g.data(),
             device.chunks.data(), std::ssize(kChunks), options, device.record.data(),
             device.skip.data(), nullptr);
  if (!skipped)
    for (const UpdateChunk& c : kChunks)
      cpu::adam(p.host.data() + c.state, m.host.data() + c.state, v.host.data() + c.state,
                g.host.data() + c.first, c.count, options, c.lr_mult, c.decay_mult, &kRecord);
  EXPECT_TRUE(near(p.device, p.host));
  EXPECT_TRUE(near(m.device, m.host));
  EXPECT_TRUE(near(v.device, v.host));
  if (skipped)
    EXPECT_TRUE(near(copy.device, copy.host, 0));
  else
    expect_copy(copy.device, p.host, copy.host);
}

TYPED_TEST(UpdateCuda, Adam) {
  for (const bool skipped : {false, true}) {
    check_adam<float, TypeParam>(skipped);
    check_adam<bf16, TypeParam>(skipped);
  }
}

TYPED_TEST(UpdateCuda, Sgd) {
  for (const bool skipped : {false, true}) {
    const OnDevice device(skipped);
    Input<float> p(kSize, 1), g(kSize, 2), b(kSize, 3);
    const Input<TypeParam> copy(kSize, 5);
    cuda::sgd(p.device.data(), b.device.data(), copy.device.data(), g.data(), device.chunks.data(),
              std::ssize(kChunks), 0.9, device.record.data(), device.skip.data(), nullptr);
    if (!skipped)
      for (const UpdateChunk& c : kChunks)
        cpu::sgd(p.host.data() + c.state, b.host.data() + c.state, g.host.data() + c.first, c.count,
                 0.9, c.lr_mult, c.decay_mult, &kRecord);
    EXPECT_TRUE(near(p.device, p.host));
    EXPECT_TRUE(near(b.device, b.host));
    if (!skipped) expect_copy(copy.device, p.host, copy.host);
  }
}

class PlainUpdateCuda : public check::CudaTest<float> {};

// Without a copy, and without a flag that skips.
TEST_F(PlainUpdateCuda, AdamOfTheWeightsAlone) {
  const OnDevice device(false);
  Input<float> p(kSize, 1), g(kSize, 2), m(kSize, 3), v(kSize, 4, 0, 0, 1);
  cuda::adam<float, float>(p.device.data(), m.device.data(), v.device.data(), nullptr, g.data(),
                           device.chunks.data(), std::ssize(kChunks), {}, device.record.data(),
                           nullptr, nullptr);
  for (const UpdateChunk& c : kChunks)
    cpu::adam(p.host.data() + c.first, m.host.data() + c.state, v.host.data() + c.state,
              g.host.data() + c.first, c.count, {}, c.lr_mult, c.decay_mult, &kRecord);
  EXPECT_TRUE(near(p.device, p.host));
}

struct Prepared {
  StepRecord record;
  UpdateState state;
};

Prepared prepare(const UpdateState& state, double sum_squares, double divisor,
                 const UpdateRules& rules) {
  const DeviceArray<StepRecord> record(std::vector<StepRecord>{kRecord});
  const DeviceArray<UpdateState> device_state(std::vector<UpdateState>{state});
  const DeviceArray<double> numbers(std::vector<double>{sum_squares, divisor});
  cuda::prepare_update(record.data(), device_state.data(), numbers.data(), numbers.data() + 1,
                       rules, nullptr);
  check::check_cuda(cudaDeviceSynchronize());
  return {record.values()[0], device_state.values()[0]};
}

constexpr UpdateRules kRules{.clip_grad = 0.5,
                             .beta1 = 0.9,
                             .beta2 = 0.99,
                             .dynamic_loss_scale = true,
                             .min_loss_scale = 16,
                             .window = 3,
                             .hysteresis = 2};

TEST_F(PlainUpdateCuda, PrepareClips) {
  const auto [record, state] =
      prepare({.loss_scale = 64, .hysteresis = 2, .steps = 4}, 1024 * 1024, 4, kRules);
  EXPECT_DOUBLE_EQ(state.grad_norm, 4);  // 1024 / (4 64)
  EXPECT_EQ(state.skipped, 0);
  EXPECT_EQ(state.steps, 5);
  EXPECT_DOUBLE_EQ(record.gradient_scale, 0.5 / (4 + 1e-6) / 256);
  EXPECT_NEAR(record.bias_correction1, 1 - std::pow(0.9, 5), 1e-15);
  EXPECT_NEAR(record.bias_correction2, 1 - std::pow(0.99, 5), 1e-15);
  EXPECT_EQ(record.learning_rate, kRecord.learning_rate);
  UpdateRules rules = kRules;
  rules.clip_grad = 0;
  EXPECT_DOUBLE_EQ(prepare({.loss_scale = 64}, 1024 * 1024, 4, rules).record.gradient_scale,
                   1.0 / 256);
  rules.clip_grad = 5;
  EXPECT_DOUBLE_EQ(prepare({.loss_scale = 64}, 1024 * 1024, 4, rules).record.gradient_scale,
                   1.0 / 256);
}

TEST_F(PlainUpdateCuda, PrepareSkips) {
  UpdateState state{.loss_scale = 64, .growth = 2, .hysteresis = 2, .steps = 4};
  for (const double loss_scale : {64, 32, 16, 16}) {  // hysteresis once, then down to the least
    const Prepared after = prepare(state, HUGE_VAL, 4, kRules);
    EXPECT_EQ(after.state.skipped, 1);
    EXPECT_EQ(after.state.steps, 4);
    EXPECT_EQ(after.state.growth, 0);
    EXPECT_EQ(after.state.loss_scale, loss_scale);
    EXPECT_EQ(after.record.gradient_scale, kRecord.gradient_scale);
    state = after.state;
  }
  for (const double loss_scale : {16, 16, 32, 32}) {  // doubled after three good steps
    state = prepare(state, 1, 4, kRules).state;
    EXPECT_EQ(state.skipped, 0);
    EXPECT_EQ(state.loss_scale, loss_scale);
  }
  EXPECT_EQ(state.hysteresis, 2);
  EXPECT_EQ(prepare(state, std::nan(""), 4, kRules).state.skipped, 1);
}

}  // namespace
}  // namespace mt
