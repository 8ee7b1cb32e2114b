// What the tests of memory-bound CUDA kernels share: numbers of float, bf16 or fp16 on host and
// device, and how near to the CPU's results in double they come.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tests/kernels/check.h"
#include "tests/kernels/device_array.h"

namespace mt::check {

using bf16 = __nv_bfloat16;
using fp16 = __half;

template <class T>
std::vector<double> as_double(const std::vector<T>& x) {
  std::vector<double> y;
  y.reserve(x.size());
  for (const T value : x) y.push_back(static_cast<double>(static_cast<float>(value)));
  return y;
}

// Half a unit in the last place, and what f32 arithmetic adds to it.
template <class T>
inline constexpr double kRounding = 4e-6;
template <>
inline constexpr double kRounding<bf16> = 0x1p-8;
template <>
inline constexpr double kRounding<fp16> = 0x1p-11 + 4e-6;

// Numbers on the device, `offset` elements behind an aligned address.
template <class T>
class Numbers {
 public:
  // Poisoned: NaN.
  explicit Numbers(std::int64_t count, std::int64_t offset = 0)
      : offset_(offset), device_(static_cast<std::size_t>(count + offset)) {}
  Numbers(const std::vector<double>& values, std::int64_t offset)
      : offset_(offset), device_(padded(values, offset)) {}

  T* data() const { return device_.data() + offset_; }
  std::vector<T> bits() const {
    const std::vector<T> all = device_.values();
    return {all.begin() + offset_, all.end()};
  }
  std::vector<double> values() const { return as_double(bits()); }

 private:
  static std::vector<T> padded(const std::vector<double>& values, std::int64_t offset) {
    std::vector<T> all(static_cast<std::size_t>(offset), T(0.0f));
    for (const double value : values) all.push_back(T(static_cast<float>(value)));
    return all;
  }
  std::int64_t offset_;
  DeviceArray<T> device_;
};

// Inputs: random numbers that T holds exactly, in double and on the device.
template <class T>
struct Input {
  Input(std::int64_t count, unsigned seed, std::int64_t offset = 0, double low = -2,
        double high = 2)
      : device(random<double>(count, seed, low, high), offset), host(device.values()) {}
  const T* data() const { return device.data(); }
  Numbers<T> device;
  std::vector<double> host;
};

template <class T>
testing::AssertionResult near(const Numbers<T>& got, const std::vector<double>& expected,
                              double tolerance = kRounding<T>) {
  check_cuda(cudaDeviceSynchronize());
  return near(got.values(), expected, tolerance);
}

// run() leaves the same bits in `result` every time.
template <class T, class Run>
void expect_same_bits(const Numbers<T>& result, int repetitions, const Run& run) {
  run();
  const std::vector<T> expected = result.bits();
  for (int i = 0; i < repetitions; ++i) {
    run();
    ASSERT_TRUE(same_bits(result.bits(), expected)) << "repetition " << i;
  }
}

// add(y) adds the same to y of f32 and of bf16, but for one rounding.
template <class Add>
void expect_one_rounding(std::int64_t count, const Add& add) {
  const Input<bf16> old(count, 9);
  const Numbers<float> exact(old.host, 0);
  add(exact.data());
  add(old.device.data());
  check_cuda(cudaDeviceSynchronize());
  EXPECT_TRUE(same_bits(old.device.bits(), convert<bf16>(exact.bits())));
}

// Tests for each element type, skipped without a GPU for it.
template <class T>
class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = skips<T>()) GTEST_SKIP() << why;
  }
};
using ElementTypes = testing::Types<float, bf16, fp16>;

}  // namespace mt::check
