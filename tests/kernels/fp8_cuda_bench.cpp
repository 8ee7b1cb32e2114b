// fp8_cuda_bench: TFLOP/s of products of eight bits on a GPU, in the shapes of a layer of Llama 8B
// and 8192 tokens, forward and both gradients, beside those of bf16 by cuBLASLt.  One JSON line a
// shape: medians of rounds in which each is timed in turn.  `tensor`: codes with a scale for each
// tensor, by cuBLASLt; `fast`: without additions in f32 in between.  `blocks`: codes of blocks.
// An argument selects shapes whose name contains it.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>

#include "kernels/fp8_blocks.h"
#include "kernels/gemm.h"
#include "kernels/gpu.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::bf16;
using check::check_cuda;
using check::DeviceArray;

constexpr std::int64_t kTokens = 8192;

double milliseconds(const std::function<void()>& run) {
  constexpr int kRuns = 5;
  static cudaEvent_t events[2] = {};
  if (events[0] == nullptr)
    for (cudaEvent_t& event : events) check_cuda(cudaEventCreate(&event));
  check_cuda(cudaEventRecord(events[0]));
  for (int i = 0; i < kRuns; ++i) run();
  check_cuda(cudaEventRecord(events[1]));
  check_cuda(cudaDeviceSynchronize());
  float time = 0;
  check_cuda(cudaEventElapsedTime(&time, events[0], events[1]));
  return static_cast<double>(time) / kRuns;
}

double median(std::vector<double> x) {
  std::ranges::nth_element(x, x.begin() + std::ssize(x) / 2);
  return x[x.size() / 2];
}

// Numbers that are about normal, and their codes.
struct Operand {
  Operand(std::int64_t rows, std::int64_t cols, unsigned seed, bool squares)
      : numbers(static_cast<std::size_t>(rows * cols)),
        codes(static_cast<std::size_t>(rows * cols)),
        blocks(static_cast<std::size_t>(rows * cols)),
        inverse(static_cast<std::size_t>(fp8_blocks(cols) * rows)) {
    const std::vector<double> some = check::random<double>(1 << 20, seed, -2, 2);
    std::vector<bf16> all(static_cast<std::size_t>(rows * cols));
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = bf16(static_cast<float>(some[i * 31 % some.size()]));
    check_cuda(cudaMemcpy(numbers.data(), all.data(), numbers.bytes(), cudaMemcpyHostToDevice));
    const DeviceArray<float> scale(std::vector<float>{200});
    cuda::fp8_cast(codes.data(), nullptr, nullptr, numbers.data(), scale.data(), rows, cols,
                   Fp8Format::e4m3, nullptr);
    cuda::fp8_block_cast(Fp8BlockCast<bf16>{.x = numbers.data(),
                                            .codes = blocks.data(),
                                            .inverse = inverse.data(),
                                            .rows = rows,
                                            .cols = cols,
                                            .squares = squares},
                         nullptr);
    check_cuda(cudaDeviceSynchronize());
  }
  DeviceArray<bf16> numbers;
  DeviceArray<std::uint8_t> codes, blocks;
  DeviceArray<float> inverse;
};

template <class C>
void bench(const std::string& name, std::int64_t m, std::int64_t n, std::int64_t k, bool squares) {
  static cuda::GemmLibrary library;
  static const DeviceArray<unsigned char> work(cuda::kGemmWork);
  library.search();
  const Operand a(m, k, 1, false), b(n, k, 2, squares);
  const DeviceArray<C> c(static_cast<std::size_t>(m * n));
  const DeviceArray<float> one(std::vector<float>{.005F});
  const auto of_tensor = [&](bool fast) {
    library.gemm(Fp8Gemm<C>{.c = c.data(),
                            .a = a.codes.data(),
                            .b = b.codes.data(),
                            .a_inverse = one.data(),
                            .b_inverse = one.data(),
                            .m = m,
                            .n = n,
                            .k = k,
                            .fast = fast},
                 work.data(), nullptr);
  };
  const std::function<void()> runs[] = {[&] {
                                          library.gemm(Gemm<bf16, C>{.c = c.data(),
                                                                     .a = a.numbers.data(),
                                                                     .b = b.numbers.data(),
                                                                     .m = m,
                                                                     .n = n,
                                                                     .k = k,
                                                                     .transpose_b = true},
                                                       work.data(), nullptr);
                                        },
                                        [&] { of_tensor(true); }, [&] { of_tensor(false); },
                                        [&] {
                                          if constexpr (cuda::kHopper)
                                            cuda::hopper::fp8_block_gemm(
                                                Fp8BlockGemm<C>{.c = c.data(),
                                                                .a = a.blocks.data(),
                                                                .b = b.blocks.data(),
                                                                .a_inverse = a.inverse.data(),
                                                                .b_inverse = b.inverse.data(),
                                                                .m = m,
                                                                .n = n,
                                                                .k = k,
                                                                .a_rows = m,
                                                                .squares = squares},
                                                nullptr);
                                        }};
  std::vector<double> times[4];
  constexpr int kWarmUp = 3, kRounds = 15;
  for (int round = 0; round < kWarmUp + kRounds; ++round)
    for (std::size_t i = 0; i < 4; ++i) {
      const double time = milliseconds(runs[i]);
      if (round >= kWarmUp) times[i].push_back(time);
    }
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  double rates[4];
  for (std::size_t i = 0; i < 4; ++i) rates[i] = flops / median(times[i]) * 1e-9;
  std::printf(
      "{\"shape\": \"%s\", \"m\": %lld, \"n\": %lld, \"k\": %lld, \"bf16\": %.0f, \"fast\": %.0f, "
      "\"tensor\": %.0f, \"blocks\": %.0f, \"of_fast\": %.3f}\n",
      name.c_str(), static_cast<long long>(m), static_cast<long long>(n), static_cast<long long>(k),
      rates[0], rates[1], rates[2], rates[3], rates[3] / rates[1]);
  std::fflush(stdout);
}

void bench_all(const std::string& filter) {
  if (!cuda::hopper_kernels()) fail(Exit::bad_config, "fp8_cuda_bench: not on Hopper");
  struct Layer {
    const char* name;
    std::int64_t in, out;
  };
  for (const Layer& layer : {Layer{"qkv", 4096, 6144},
                             {"proj", 4096, 4096},
                             {"fc1", 4096, 28672},
                             {"fc2", 14336, 4096}}) {
    const auto wants = [&](const std::string& name) {
      return name.find(filter) != std::string::npos;
    };
    const std::string name = layer.name;
    if (wants(name + " forward"))
      bench<bf16>(name + " forward", kTokens, layer.out, layer.in, true);
    if (wants(name + " dgrad")) bench<bf16>(name + " dgrad", kTokens, layer.in, layer.out, true);
    if (wants(name + " wgrad")) bench<float>(name + " wgrad", layer.out, layer.in, kTokens, false);
  }
}

}  // namespace
}  // namespace mt

int main(int argc, char** argv) {
  try {
    mt::bench_all(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fp8_cuda_bench: %s\n", error.what());
    return 1;
  }
}
