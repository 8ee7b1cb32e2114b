// The optimizers' steps on the GPU against the CPU's in double.
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

template <class First, class Second, class T>
void check_adam() {
  const OnDevice device;
  Input<float> p(kSize, 1), g(kSize, 2);
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

TYPED_TEST(UpdateCuda, Sgd) {
  const OnDevice device;
  Input<float> p(kSize, 1), g(kSize, 2), b(kSize, 3);
  const Input<TypeParam> copy(kSize, 5);
  cuda::sgd(p.device.data(), b.device.data(), copy.device.data(), g.data(), device.chunks.data(),
            std::ssize(kChunks), 0.9, device.record.data(), nullptr);
  for (const UpdateChunk& c : kChunks)
    cpu::sgd(p.host.data() + c.state, b.host.data() + c.state, g.host.data() + c.first, c.count,
             0.9, c.lr_mult, c.decay_mult, &kRecord);
  EXPECT_TRUE(near(p.device, p.host));
  EXPECT_TRUE(near(b.device, b.host));
  expect_copy(copy.device, p.host, copy.host);
}

class PlainUpdateCuda : public check::CudaTest<float> {};

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

}  // namespace
}  // namespace mt
