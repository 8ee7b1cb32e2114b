// packed_cuda_bench: microseconds of products of few rows with packed tiles on a GPU, in the shapes
// of a layer of Llama 8B, beside those with bf16.  One JSON line each.
//   packed_cuda_bench shapes TYPE [M...]   each shape by itself, weights from beyond the L2
//   packed_cuda_bench unpack TYPE          all numbers of each shape's matrix, to bf16
//   packed_cuda_bench decode TYPE [M...]   the products of a token of all 32 layers, one after
//                                          another, as they follow in generation
// TYPE: a number of BlockType, or bf16.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "kernels/few_rows.h"
#include "kernels/packed_few_rows.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::bf16;
using check::check_cuda;
using check::DeviceArray;

constexpr std::int64_t kHidden = 4096, kQkv = 6144, kFfn = 14336, kWords = 128256;

struct Shape {
  const char* name;
  std::int64_t n, k;
  bool norm, residual, swiglu;
};
constexpr Shape kShapes[] = {{"qkv", kQkv, kHidden, true, false, false},
                             {"proj", kHidden, kHidden, false, true, false},
                             {"fc1", 2 * kFfn, kHidden, true, false, true},
                             {"fc2", kHidden, kFfn, false, true, false},
                             {"words", kWords, kHidden, true, false, false}};

// A matrix of a type, or of bf16, at any place in a pool of bytes.
class Weights {
 public:
  Weights(int type, const Shape& shape) : type_(type), shape_(shape) {
    if (type_ < 0) return;
    form_ = PackedTiles(
        std::vector<BlockType>(static_cast<std::size_t>(shape.n), static_cast<BlockType>(type)),
        shape.k);
  }
  std::int64_t bytes() const {
    return type_ < 0 ? shape_.n * shape_.k * 2 : (form_.bytes() + 255) / 256 * 256;
  }
  void multiply(FewRows<bf16, bf16> p, const std::uint8_t* at, cudaStream_t stream) const {
    p.n = shape_.n;
    p.k = shape_.k;
    p.b = reinterpret_cast<const bf16*>(at);
    if (type_ < 0)
      cuda::few_rows(p, stream);
    else
      cuda::packed_few_rows(p, at, form_, stream);
  }

  void unpack(std::uint8_t* to, const std::uint8_t* at, cudaStream_t stream) const {
    cuda::unpack_tiles(reinterpret_cast<bf16*>(to), at, form_, stream);
  }

 private:
  int type_;
  Shape shape_;
  PackedTiles form_;
};

class Bench {
 public:
  explicit Bench(int type)
      : type_(type),
        pool_(static_cast<std::size_t>(type < 0 ? 17LL << 30 : 9LL << 30)),
        x_(check::random<double>(256 * kFfn, 1), 0),
        work_(256 * kFfn),
        y_(256 * kWords) {
    check_cuda(cudaStreamCreate(&stream_));
    std::vector<std::uint32_t> some(1 << 22);
    std::uint32_t state = 1;
    for (std::uint32_t& word : some) {
      state = state * 1664525 + 1013904223;
      word = (state ^ state >> 16) & 0xbfbfbfbf;  // no bf16 among it is large
    }
    for (std::size_t at = 0; at + some.size() * 4 <= pool_.bytes(); at += some.size() * 4)
      check_cuda(cudaMemcpy(
          pool_.data() + at, at == 0 ? static_cast<const void*>(some.data()) : pool_.data(),
          some.size() * 4, at == 0 ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice));
  }

  FewRows<bf16, bf16> problem(const Shape& shape, std::int64_t m) const {
    FewRows<bf16, bf16> p{.c = y_.data(), .a = x_.data(), .m = m};
    if (shape.norm) p.norm = {.w = x_.data(), .eps = 1e-5F};
    if (shape.residual) p.residual = y_.data();
    if (shape.swiglu) {
      p.then = FewRows<bf16, bf16>::Then::swiglu;
    }
    p.work = work_.data();
    return p;
  }

  // Microseconds of a graph of what run() launches.
  double time(const std::function<void()>& run) const {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    run();
    check_cuda(cudaStreamEndCapture(stream_, &graph));
    check_cuda(cudaGraphInstantiate(&exec, graph, 0));
    cudaEvent_t events[2];
    for (cudaEvent_t& event : events) check_cuda(cudaEventCreate(&event));
    std::vector<double> times;
    for (int i = 0; i < 9; ++i) {
      check_cuda(cudaEventRecord(events[0], stream_));
      check_cuda(cudaGraphLaunch(exec, stream_));
      check_cuda(cudaEventRecord(events[1], stream_));
      check_cuda(cudaStreamSynchronize(stream_));
      float time = 0;
      check_cuda(cudaEventElapsedTime(&time, events[0], events[1]));
      times.push_back(time * 1e3);
    }
    check_cuda(cudaGraphExecDestroy(exec));
    check_cuda(cudaGraphDestroy(graph));
    std::ranges::nth_element(times, times.begin() + 4);
    return times[4];
  }

  void shapes(const std::vector<std::int64_t>& ms) const {
    for (const Shape& shape : kShapes) {
      const Weights w(type_, shape);
      const std::int64_t copies = std::clamp<std::int64_t>((400 << 20) / w.bytes(), 2, 16);
      for (const std::int64_t m : ms) {
        const double us =
            time([&] {
              for (int round = 0; round < 2; ++round)
                for (std::int64_t i = 0; i < copies; ++i)
                  w.multiply(problem(shape, m), pool_.data() + i * w.bytes(), stream_);
            }) /
            static_cast<double>(2 * copies);
        std::printf(
            "{\"type\": %d, \"shape\": \"%s\", \"m\": %lld, \"us\": %.2f, \"TB/s\": %.3f}\n", type_,
            shape.name, static_cast<long long>(m), us, static_cast<double>(w.bytes()) / us * 1e-6);
        std::fflush(stdout);
      }
    }
  }

  void unpack() const {
    if (type_ < 0) return;
    for (const Shape& shape : kShapes) {
      const Weights w(type_, shape);
      const double us = time([&] { w.unpack(pool_.data() + (5LL << 30), pool_.data(), stream_); });
      std::printf("{\"type\": %d, \"shape\": \"%s\", \"unpack\": %.2f}\n", type_, shape.name, us);
      std::fflush(stdout);
    }
  }

  void decode(std::int64_t m) const {
    std::vector<Weights> w;
    for (const Shape& shape : kShapes) w.emplace_back(type_, shape);
    std::int64_t bytes = 0;
    const double us = time([&] {
      std::int64_t at = 0;
      for (int layer = 0; layer < 32; ++layer)
        for (std::size_t i = 0; i < 4; ++i) {
          auto p = problem(kShapes[i], m);
          const std::int64_t next = at + w[i].bytes();
          if (i == 3)
            p.ahead = pool_.data() + next, p.ahead_bytes = static_cast<std::size_t>(w[0].bytes());
          w[i].multiply(p, pool_.data() + at, stream_);
          at = next;
        }
      w[4].multiply(problem(kShapes[4], m), pool_.data() + at, stream_);
      bytes = at + w[4].bytes();
    });
    std::printf("{\"type\": %d, \"decode\": %lld, \"us\": %.1f, \"GB\": %.3f, \"TB/s\": %.3f}\n",
                type_, static_cast<long long>(m), us, static_cast<double>(bytes) * 1e-9,
                static_cast<double>(bytes) / us * 1e-6);
    std::fflush(stdout);
  }

 private:
  int type_;
  DeviceArray<std::uint8_t> pool_;
  check::Numbers<bf16> x_, work_, y_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace
}  // namespace mt

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string what = argv[1];
  const int type = std::strcmp(argv[2], "bf16") == 0 ? -1 : std::atoi(argv[2]);
  std::vector<std::int64_t> ms;
  for (int i = 3; i < argc; ++i) ms.push_back(std::atoi(argv[i]));
  if (ms.empty()) ms = {1};
  try {
    const mt::Bench bench(type);
    if (what == "shapes") bench.shapes(ms);
    if (what == "unpack") bench.unpack();
    if (what == "decode")
      for (const std::int64_t m : ms) bench.decode(m);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
