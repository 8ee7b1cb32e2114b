// The optimizers' steps on the GPU against the CPU's in double.
#include "kernels/update.h"

#include <cmath>
#include <limits>

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

template <class First, class Second, class T, class G = float>
void check_adam() {
  const OnDevice device;
  Input<float> p(kSize, 1);
  const Input<G> g(kSize, 2);
  Input<First> m(kSize, 3);
  Input<Second> v(kSize, 4, 0, 0, 1);
  const Input<T> copy(kSize, 5);
  const AdamOptions options{.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
  cuda::adam(p.device.data(), m.device.data(), v.device.data(), copy.device.data(), g.data(),
             device.chunks.data(), std::ssize(kChunks), options, device.record.data(), nullptr);
  for (const UpdateChunk& c : kChunks)
    cpu::adam(p.host.data() + c.state, m.host.data() + c.state, v.host.data() + c.state,
              g.host.data() + c.first, c.count, options, c.lr_mult, c.decay_mult, &kRecord);
  EXPECT_TRUE(near(p.device, p.host));
  EXPECT_TRUE(near(m.device, m.host));
  EXPECT_TRUE(near(v.device, v.host));
  expect_copy(copy.device, p.host, copy.host);
}

TYPED_TEST(UpdateCuda, Adam) {
  check_adam<float, float, TypeParam>();
  check_adam<float, bf16, TypeParam>();
  check_adam<bf16, float, TypeParam>();
  check_adam<bf16, bf16, TypeParam>();
}

template <class T, class G = float>
void check_sgd() {
  const OnDevice device;
  Input<float> p(kSize, 1), b(kSize, 3);
  const Input<G> g(kSize, 2);
  const Input<T> copy(kSize, 5);
  cuda::sgd(p.device.data(), b.device.data(), copy.device.data(), g.data(), device.chunks.data(),
            std::ssize(kChunks), 0.9, device.record.data(), nullptr);
  for (const UpdateChunk& c : kChunks)
    cpu::sgd(p.host.data() + c.state, b.host.data() + c.state, g.host.data() + c.first, c.count,
             0.9, c.lr_mult, c.decay_mult, &kRecord);
  EXPECT_TRUE(near(p.device, p.host));
  EXPECT_TRUE(near(b.device, b.host));
  expect_copy(copy.device, p.host, copy.host);
}

TYPED_TEST(UpdateCuda, Sgd) { check_sgd<TypeParam>(); }

class PlainUpdateCuda : public check::CudaTest<float> {};

TEST_F(PlainUpdateCuda, GradientsInBf16) {
  check_adam<float, float, bf16, bf16>();
  check_adam<bf16, bf16, bf16, bf16>();
  check_sgd<bf16, bf16>();
}

// Without a copy.
TEST_F(PlainUpdateCuda, AdamOfTheWeightsAlone) {
  const OnDevice device;
  Input<float> p(kSize, 1), g(kSize, 2), m(kSize, 3), v(kSize, 4, 0, 0, 1);
  cuda::adam<float, float, float>(p.device.data(), m.device.data(), v.device.data(), nullptr,
                                  g.data(), device.chunks.data(), std::ssize(kChunks), {},
                                  device.record.data(), nullptr);
  for (const UpdateChunk& c : kChunks)
    cpu::adam(p.host.data() + c.first, m.host.data() + c.state, v.host.data() + c.state,
              g.host.data() + c.first, c.count, {}, c.lr_mult, c.decay_mult, &kRecord);
  EXPECT_TRUE(near(p.device, p.host));
}

TEST_F(PlainUpdateCuda, ASkippedStepChangesNothing) {
  const OnDevice device;
  StepRecord record = kRecord;
  record.gradient_scale = 0;
  const DeviceArray<StepRecord> skipped(std::vector<StepRecord>{record});
  const Input<float> p(kSize, 1), g(kSize, 2), m(kSize, 3), v(kSize, 4, 0, 0, 1), copy(kSize, 5);
  cuda::adam(p.device.data(), m.device.data(), v.device.data(), copy.device.data(), g.data(),
             device.chunks.data(), std::ssize(kChunks), {}, skipped.data(), nullptr);
  cuda::sgd(p.device.data(), m.device.data(), copy.device.data(), g.data(), device.chunks.data(),
            std::ssize(kChunks), 0.9, skipped.data(), nullptr);
  for (const Input<float>* array : {&p, &m, &v, &copy})
    EXPECT_EQ(array->device.values(), array->host);
}

// The CPU's bits.
TEST_F(PlainUpdateCuda, DecidesAsTheCpu) {
  constexpr double kInfinity = HUGE_VAL, kNan = std::numeric_limits<double>::quiet_NaN();
  struct Step {
    StepOutcome outcome;
    bool skipped, ends;  // without and with all_finite
  };
  const auto outcome = [](double loss, double tokens, double sum_squares, int before = 0) {
    return StepOutcome{.loss = loss,
                       .tokens = tokens,
                       .sum_squares = sum_squares,
                       .loss_scale = {.scale = 1.7, .growth = 3, .hysteresis = 1},
                       .skipped = before};
  };
  const Step steps[] = {
      {outcome(30.5, 7, 4), false, false},         {outcome(2, 1, 1e-9), false, false},
      {outcome(3, 11, kInfinity), true, true},     {outcome(3, 11, 0.1, 1), false, true},
      {outcome(kNan, 3, 17.3), false, true},       {outcome(1, 12, kNan), true, true},
      {outcome(kInfinity, 3, 1e300), false, true}, {outcome(1.5, 0, 2), false, true}};
  for (const Step& step : steps)
    for (const bool all_finite : {false, true})
      for (const double divisor : {0.0, 3.0})
        for (const double clip : {0.0, 0.7}) {
          const UpdateRules rules{
              .loss_scale = {.dynamic = true, .least = 1, .window = 4, .hysteresis = 2},
              .divisor = divisor,
              .clip_grad = clip,
              .all_finite = all_finite};
          std::vector<StepRecord> records{kRecord};
          for (const double rate : {3, 5, 7}) records.push_back({.learning_rate = rate});
          const double rates[] = {step.outcome.skipped != 0 ? 5 : kRecord.learning_rate,
                                  step.outcome.skipped != 0 ? 7.0 : 3.0};
          const DeviceArray<StepOutcome> there(std::vector<StepOutcome>{step.outcome});
          const DeviceArray<StepRecord> records_there(records);
          cuda::decide_update(records_there.data(), 2, there.data(), rules, nullptr);
          StepOutcome expected = step.outcome;
          cpu::decide_update(records.data(), 2, &expected, rules);
          const StepOutcome got = there.values().front();
          EXPECT_EQ(got.skipped != 0, all_finite ? step.ends : step.skipped);
          EXPECT_EQ(got.skipped, expected.skipped);
          EXPECT_TRUE(got.grad_norm == expected.grad_norm || std::isnan(expected.grad_norm));
          EXPECT_EQ(got.loss_scale.scale, got.skipped != 0 ? 1 : 3.4);
          EXPECT_EQ(expected.loss_scale.scale, got.loss_scale.scale);
          EXPECT_EQ(got.loss_scale.growth, expected.loss_scale.growth);
          EXPECT_EQ(got.loss_scale.hysteresis, expected.loss_scale.hysteresis);
          for (std::size_t i = 0; i < 2; ++i) {
            const StepRecord record = records_there.values()[i];
            EXPECT_EQ(record.gradient_scale, records[i].gradient_scale);
            EXPECT_EQ(record.learning_rate, rates[i]);
            EXPECT_EQ(records[i].learning_rate, rates[i]);
            EXPECT_EQ(record.gradient_scale == 0, got.skipped != 0);
          }
        }
}

}  // namespace
}  // namespace mt
