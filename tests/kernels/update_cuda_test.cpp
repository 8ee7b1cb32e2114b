// The optimizers' steps on the GPU against the CPU's in double.
#include "kernels/update.h"

#include <cuda_fp8.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/adam.h"
#include "kernels/sgd.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::bf16;
using check::DeviceArray;
using check::fp16;
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

template <class Q>
cuda::Kept<Q> unscaled(const Input<Q>& kept) {
  return {kept.device.data()};
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
  cuda::adam(unscaled(p), unscaled(m), unscaled(v), copy.device.data(), g.data(),
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

using fp8 = __nv_fp8_e4m3;

// A moment of fp16 or fp8, or masters of fp16, of which each chunk has a scale of its own.
template <class Q>
struct Scaled {
  static constexpr float kRange = sizeof(Q) == 1 ? kFp8Range : kFp16Range;
  // Half a unit in the last place, and half of the smallest number, of the largest one's.
  static constexpr double kRelative = sizeof(Q) == 1 ? 0x1p-4 : 0x1p-11,
                          kAbsolute = sizeof(Q) == 1 ? 0x1p-10 / 448 : 0x1p-25 / 32752;
  static constexpr std::size_t kPieces = std::size(kChunks);

  Scaled(unsigned seed, double low) : values(kSize, seed, 0, low, 2), scales(first_scales()) {
    for (std::size_t i = 0; i < kPieces; ++i)
      for (std::int64_t at = 0; at < kChunks[i].count; ++at)
        values.host[static_cast<std::size_t>(kChunks[i].state + at)] *= first_scales()[i];
  }
  // And zeros.
  static std::vector<float> first_scales() {
    std::vector<float> all(2 * kPieces);
    for (std::size_t i = 0; i < kPieces; ++i) all[i] = std::ldexp(1.5f, static_cast<int>(i) - 8);
    return all;
  }
  cuda::Kept<Q> kept() { return {values.device.data(), scales.data(), scales.data() + kPieces}; }

  // Of the values as the CPU has computed them.  arithmetic: of f32's, in units of the largest.
  void check(double arithmetic = 0) const {
    const std::vector<float> all = scales.values();
    const std::vector<double> got = values.device.values();
    for (std::size_t piece = 0; piece < kPieces; ++piece) {
      const UpdateChunk& c = kChunks[piece];
      double largest = 0;
      for (std::int64_t i = c.state; i < c.state + c.count; ++i)
        largest = std::max(largest, std::abs(values.host[static_cast<std::size_t>(i)]));
      const float scale = all[piece];
      EXPECT_NEAR(scale, largest / kRange, 2e-4 * scale);
      EXPECT_EQ(kept_scale(scale * kRange, kRange), scale);
      EXPECT_EQ(all[kPieces + piece], 0);
      for (std::int64_t i = c.state; i < c.state + c.count; ++i) {
        const double expected = values.host[static_cast<std::size_t>(i)];
        ASSERT_NEAR(got[static_cast<std::size_t>(i)] * scale, expected,
                    1.001 * (kRelative * std::abs(expected) + (kAbsolute + arithmetic) * largest))
            << i;
      }
    }
  }

  Input<Q> values;
  DeviceArray<float> scales;
};

// What is kept in float or bf16, which has no scales.
template <class Q>
struct Unscaled {
  Unscaled(unsigned seed, double low) : values(kSize, seed, 0, low, 2) {}
  cuda::Kept<Q> kept() const { return unscaled(values); }
  void check(double = 0) const { EXPECT_TRUE(near(values.device, values.host)); }
  Input<Q> values;
};
template <class Q>
using KeptIn =
    std::conditional_t<std::is_same_v<Q, fp16> || std::is_same_v<Q, fp8>, Scaled<Q>, Unscaled<Q>>;

template <class Master, class First, class Second, class T, class G = float>
void check_scaled_adam() {
  std::vector<UpdateChunk> chunks(std::begin(kChunks), std::end(kChunks));
  for (std::size_t i = 0; i < chunks.size(); ++i) chunks[i].piece = static_cast<std::int64_t>(i);
  const DeviceArray<UpdateChunk> chunks_there(chunks);
  const DeviceArray<StepRecord> record(std::vector<StepRecord>{kRecord});
  const Input<G> g(kSize, 2);
  const Input<T> copy(kSize, 5);
  KeptIn<Master> p(1, -2);
  KeptIn<First> m(3, -2);
  KeptIn<Second> v(4, 0);
  const AdamOptions options{.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
  cuda::adam(p.kept(), m.kept(), v.kept(), copy.device.data(), g.data(), chunks_there.data(),
             std::ssize(chunks), options, record.data(), nullptr);
  const auto take_scales = [&]<class Q>(const cuda::Kept<Q>& kept) {
    if constexpr (std::is_same_v<KeptIn<Q>, Scaled<Q>>)
      cuda::take_scales(kept, std::ssize(chunks), record.data(), nullptr);
  };
  take_scales(p.kept());
  take_scales(m.kept());
  take_scales(v.kept());
  for (const UpdateChunk& c : chunks)
    cpu::adam(p.values.host.data() + c.state, m.values.host.data() + c.state,
              v.values.host.data() + c.state, g.host.data() + c.first, c.count, options, c.lr_mult,
              c.decay_mult, &kRecord);
  p.check(4e-7);  // updates may be as large as what they are added to
  expect_copy(copy.device, p.values.host, copy.host);
  m.check();
  v.check();
}

TYPED_TEST(UpdateCuda, AdamOfScaledMoments) {
  check_scaled_adam<float, fp16, fp16, TypeParam>();
  check_scaled_adam<float, fp8, fp8, TypeParam>();
  check_scaled_adam<float, fp8, fp16, TypeParam>();
  check_scaled_adam<float, fp16, fp8, TypeParam>();
}

// The copy is of what is not yet rounded.
TYPED_TEST(UpdateCuda, AdamOfScaledMasters) {
  if constexpr (!std::is_same_v<TypeParam, float>) {
    check_scaled_adam<fp16, float, float, TypeParam>();
    check_scaled_adam<fp16, bf16, bf16, TypeParam>();
    check_scaled_adam<fp16, fp16, fp8, TypeParam>();
  }
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
  check_scaled_adam<float, fp8, fp16, bf16, bf16>();
  check_scaled_adam<fp16, float, float, bf16, bf16>();
  check_sgd<bf16, bf16>();
}

// Without a copy.
TEST_F(PlainUpdateCuda, AdamOfTheWeightsAlone) {
  const OnDevice device;
  Input<float> p(kSize, 1), g(kSize, 2), m(kSize, 3), v(kSize, 4, 0, 0, 1);
  cuda::adam<float, float, float, float>(unscaled(p), unscaled(m), unscaled(v), nullptr, g.data(),
                                         device.chunks.data(), std::ssize(kChunks), {},
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
  cuda::adam(unscaled(p), unscaled(m), unscaled(v), copy.device.data(), g.data(),
             device.chunks.data(), std::ssize(kChunks), {}, skipped.data(), nullptr);
  cuda::sgd(p.device.data(), m.device.data(), copy.device.data(), g.data(), device.chunks.data(),
            std::ssize(kChunks), 0.9, skipped.data(), nullptr);
  for (const Input<float>* array : {&p, &m, &v, &copy})
    EXPECT_EQ(array->device.values(), array->host);
}

// A step ends if any of its losses is not finite, and no other is looked at.
TEST_F(PlainUpdateCuda, DecidesByAllLosses) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const StepOutcome outcome{.sum_squares = 4, .losses = {{3, 2}, {nan, 2}}, .loss_scale = {}};
  for (const int losses : {1, 2}) {
    const DeviceArray<StepOutcome> there(std::vector<StepOutcome>{outcome});
    const DeviceArray<StepRecord> records(std::vector<StepRecord>{kRecord, kRecord});
    cuda::decide_update(records.data(), 1, there.data(),
                        {.loss_scale = {}, .losses = losses, .all_finite = true}, nullptr);
    EXPECT_EQ(there.values().front().skipped, losses == 2 ? 1 : 0);
  }
}

// The CPU's bits.
TEST_F(PlainUpdateCuda, DecidesAsTheCpu) {
  constexpr double kInfinity = HUGE_VAL, kNan = std::numeric_limits<double>::quiet_NaN();
  struct Step {
    StepOutcome outcome;
    bool skipped, ends;  // without and with all_finite
  };
  const auto outcome = [](double loss, double tokens, double sum_squares, int before = 0) {
    return StepOutcome{.sum_squares = sum_squares,
                       .losses = {{loss, tokens}},
                       .loss_scale = {.scale = 1.7, .growth = 3, .hysteresis = 1},
                       .skipped = before};
  };
  const Step steps[] = {{outcome(30.5, 7, 4), false, false},
                        {outcome(2, 1, 1e-9), false, false},
                        {outcome(3, 11, kInfinity), true, true},
                        {outcome(3, 11, 0.1, 1), false, true},
                        {outcome(kNan, 3, 17.3), false, true},
                        {outcome(1, 12, kNan), true, true},
                        {outcome(kInfinity, 3, 1e300), false, true},
                        {outcome(1.5, 0, 2), false, true},
                        {outcome(0, 0, 2), false, false}};
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
