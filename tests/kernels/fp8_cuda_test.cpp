// Casts to eight bits on the GPU as on the CPU, to the bit, and products of codes beside those of
// the CPU.
#include "kernels/fp8.h"

#include <array>
#include <memory>

#include "kernels/gemm.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::bf16;
using check::DeviceArray;
using check::fp16;
using check::Numbers;

constexpr Fp8Format kFormats[] = {Fp8Format::e4m3, Fp8Format::e5m2};

// Random numbers of many sizes that T has, and as many of them as float.
template <class T>
struct Wide {
  explicit Wide(std::int64_t count, unsigned seed) : device(make(count, seed), 0) {
    for (const double value : device.values()) host.push_back(static_cast<float>(value));
  }
  static std::vector<double> make(std::int64_t count, unsigned seed) {
    auto x = check::random<double>(count, seed);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = std::ldexp(x[i], static_cast<int>(i % 23) - 12);
    return x;
  }
  Numbers<T> device;
  std::vector<float> host;
};

template <class T>
class Fp8Cuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(Fp8Cuda, check::ElementTypes);

TYPED_TEST(Fp8Cuda, CastsAsTheCpu) {
  for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>(16, 16),
                                   {48, 208},
                                   {64, 64},
                                   {112, 4096},
                                   {1040, 528}})
    for (const Fp8Format format : kFormats) {
      SCOPED_TRACE(testing::Message()
                   << rows << " rows of " << cols << ", format " << static_cast<int>(format));
      const Wide<TypeParam> x(rows * cols, 1);
      const auto count = static_cast<std::size_t>(rows * cols);
      const DeviceArray<float> scale(std::vector<float>{37.5F});
      std::vector<std::uint8_t> codes(count), transposed(count);
      cpu::fp8_cast(codes.data(), transposed.data(), x.host.data(), 37.5F, rows, cols, format);
      const float largest = cpu::fp8_amax(x.host.data(), rows * cols);
      const DeviceArray<float> amax(std::vector<float>{largest / 2});
      for (const int form : {1, 2, 3}) {
        const DeviceArray<std::uint8_t> got(count), got_transposed(count);
        cuda::fp8_cast(form & 1 ? got.data() : nullptr, form & 2 ? got_transposed.data() : nullptr,
                       form & 1 ? amax.data() : nullptr, x.device.data(), scale.data(), rows, cols,
                       format, nullptr);
        check::check_cuda(cudaDeviceSynchronize());
        if (form & 1) {
          EXPECT_EQ(got.values(), codes);
        }
        if (form & 2) {
          EXPECT_EQ(got_transposed.values(), transposed);
        }
      }
      EXPECT_EQ(amax.values().front(), largest);
    }
}

TYPED_TEST(Fp8Cuda, FindsTheLargestAsTheCpu) {
  for (const std::int64_t count : {1, 7, 4096, 1000003}) {
    const Wide<TypeParam> x(count, 3);
    const float expected = cpu::fp8_amax(x.host.data(), count);
    const DeviceArray<float> amax(1);
    cuda::fp8_amax(amax.data(), x.device.data(), count, nullptr);
    check::check_cuda(cudaDeviceSynchronize());
    EXPECT_EQ(amax.values().front(), expected) << count;
  }
}

class Fp8Scales : public check::CudaTest<float> {};

TEST_F(Fp8Scales, AreTheCpus) {
  for (const float amax : {0.0F, 3.0F, .01F, 0x1p-140F, INFINITY}) {
    const DeviceArray<float> there(std::vector<float>{amax}), scale(1), inverse(1);
    cuda::fp8_scale(scale.data(), inverse.data(), there.data(), Fp8Format::e4m3, nullptr);
    check::check_cuda(cudaDeviceSynchronize());
    EXPECT_EQ(scale.values().front(), fp8_scale_of(amax, Fp8Format::e4m3)) << amax;
    EXPECT_EQ(inverse.values().front(), 1 / fp8_scale_of(amax, Fp8Format::e4m3)) << amax;
  }
}

TEST_F(Fp8Scales, AreDelayedAsTheCpus) {
  constexpr std::int64_t kCount = 300, kLength = 5;
  for (const bool most_recent : {false, true}) {
    std::vector<float> scale(kCount, 1), inverse(kCount * kFp8InverseStride, 1),
        history(kCount * kLength), amax(kCount);
    const DeviceArray<float> scales(scale), inverses(inverse), histories(history), there(amax);
    const auto of = [&](float* s, float* i, float* h, float* a) {
      return Fp8Delayed{.scale = s,
                        .inverse = i,
                        .history = h,
                        .amax = a,
                        .count = kCount,
                        .length = kLength,
                        .most_recent = most_recent,
                        .margin = .5F,
                        .format = Fp8Format::e5m2};
    };
    for (unsigned step = 0; step < 8; ++step) {
      amax = check::random<float>(kCount, step, 0, 9);
      amax[step] = 0;
      amax[step + 10] = INFINITY;
      check::check_cuda(
          cudaMemcpy(there.data(), amax.data(), there.bytes(), cudaMemcpyHostToDevice));
      cuda::fp8_update(of(scales.data(), inverses.data(), histories.data(), there.data()), nullptr);
      check::check_cuda(cudaDeviceSynchronize());
      cpu::fp8_update(of(scale.data(), inverse.data(), history.data(), amax.data()));
      EXPECT_EQ(scales.values(), scale);
      EXPECT_EQ(inverses.values(), inverse);
      EXPECT_EQ(histories.values(), history);
      EXPECT_EQ(there.values(), amax);
    }
  }
}

// --- Products ------------------------------------------------------------------------------------

template <class C>
class Fp8GemmCuda : public check::CudaTest<C> {
 protected:
  void SetUp() override {
    check::CudaTest<C>::SetUp();
    if (testing::Test::IsSkipped()) return;
    int device = 0;
    cudaDeviceProp gpu = {};
    check::check_cuda(cudaGetDevice(&device));
    check::check_cuda(cudaGetDeviceProperties(&gpu, device));
    if (10 * gpu.major + gpu.minor < 89) GTEST_SKIP() << "no products of eight bits";
  }
};
TYPED_TEST_SUITE(Fp8GemmCuda, check::ElementTypes);

// Codes of numbers in [-1, 1), and their inverse scale.
struct Coded {
  Coded(std::int64_t count, unsigned seed, Fp8Format of)
      : format(of), host(static_cast<std::size_t>(count)) {
    const auto x = check::random<float>(count, seed);
    cpu::fp8_cast(host.data(), nullptr, x.data(), fp8_largest(of), 1, count, of);
    inverse = 1 / fp8_largest(of);
    device = std::make_unique<DeviceArray<std::uint8_t>>(host);
    there = std::make_unique<DeviceArray<float>>(std::vector<float>{inverse});
  }
  Fp8Format format;
  std::vector<std::uint8_t> host;
  float inverse;
  std::unique_ptr<DeviceArray<std::uint8_t>> device;
  std::unique_ptr<DeviceArray<float>> there;
};

// Sums of k terms of which each is at most 1, with `fast` of about 14 bits, in results that are
// rounded to C.
TYPED_TEST(Fp8GemmCuda, IsNearTheCpus) {
  using C = TypeParam;
  const DeviceArray<unsigned char> work(cuda::kGemmWork);
  cuda::GemmLibrary library;
  for (const std::array<std::int64_t, 3>& sides : {std::array<std::int64_t, 3>{16, 16, 16},
                                                   {48, 208, 80},
                                                   {512, 384, 4096},
                                                   {1008, 272, 2000}})
    for (const auto& formats : {std::pair(kFormats[0], kFormats[0]),
                                {kFormats[1], kFormats[0]},
                                {kFormats[0], kFormats[1]}})
      for (const bool fast : {false, true})
        for (const bool accumulate : {false, true}) {
          const std::int64_t m = sides[0], n = sides[1], k = sides[2];
          const Fp8Format a_format = formats.first, b_format = formats.second;
          SCOPED_TRACE(testing::Message()
                       << m << " x " << n << " x " << k << ", formats "
                       << static_cast<int>(a_format) << " and " << static_cast<int>(b_format)
                       << (fast ? ", fast" : "") << (accumulate ? ", added" : ""));
          const Coded a(m * k, 1, a_format), b(n * k, 2, b_format);
          const check::Input<C> old(m * n, 3), bias(n, 4);
          const bool biased = !std::is_same_v<C, float> && !accumulate;
          std::vector<double> expected = old.host;
          cpu::fp8_gemm(Fp8Gemm<double>{.c = expected.data(),
                                        .a = a.host.data(),
                                        .b = b.host.data(),
                                        .a_format = a_format,
                                        .b_format = b_format,
                                        .a_inverse = &a.inverse,
                                        .b_inverse = &b.inverse,
                                        .m = m,
                                        .n = n,
                                        .k = k,
                                        .accumulate = accumulate,
                                        .bias = biased ? bias.host.data() : nullptr});
          const Numbers<C> c(old.host, 0);
          const auto run = [&] {
            library.gemm(Fp8Gemm<C>{.c = c.data(),
                                    .a = a.device->data(),
                                    .b = b.device->data(),
                                    .a_format = a_format,
                                    .b_format = b_format,
                                    .a_inverse = a.there->data(),
                                    .b_inverse = b.there->data(),
                                    .m = m,
                                    .n = n,
                                    .k = k,
                                    .accumulate = accumulate,
                                    .bias = biased ? bias.data() : nullptr,
                                    .fast = fast},
                         work.data(), nullptr);
            check::check_cuda(cudaDeviceSynchronize());
          };
          run();
          const double sums = std::sqrt(static_cast<double>(k)) * (fast ? 0x1p-9 : 0x1p-11);
          EXPECT_TRUE(check::near(c.values(), expected, sums + 2 * check::kRounding<C>));
          if (!accumulate) check::expect_same_bits(c, 3, run);
        }
}

// The search finds what gives the same bits.
TYPED_TEST(Fp8GemmCuda, SearchChangesNoBit) {
  using C = TypeParam;
  constexpr std::int64_t kM = 512, kN = 256, kK = 1024;
  const Coded a(kM * kK, 1, Fp8Format::e5m2), b(kN * kK, 2, Fp8Format::e4m3);
  const check::Input<C> old(kM * kN, 3);
  const DeviceArray<unsigned char> work(cuda::kGemmWork);
  std::vector<double> results[2];
  for (const bool search : {false, true}) {
    cuda::GemmLibrary library;
    if (search) library.search();
    const Numbers<C> c(old.host, 0);
    library.gemm(Fp8Gemm<C>{.c = c.data(),
                            .a = a.device->data(),
                            .b = b.device->data(),
                            .a_format = a.format,
                            .b_format = b.format,
                            .a_inverse = a.there->data(),
                            .b_inverse = b.there->data(),
                            .m = kM,
                            .n = kN,
                            .k = kK,
                            .accumulate = true},
                 work.data(), nullptr);
    results[search] = c.values();
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace mt
