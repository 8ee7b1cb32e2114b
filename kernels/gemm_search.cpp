#include "kernels/gemm_search.h"

#include <algorithm>

#include "kernels/elementwise.h"

namespace mt::cuda::lt {

constexpr float kOutOfReach = 1.03F;  // times the fastest's time: not timed in the next round

Search::Search(cublasLtHandle_t library, const Shape& shape, const Plan& plan,
               const Operands& operands, void* work, cudaStream_t stream)
    : library_(library),
      plan_(plan),
      operands_(operands),
      work_(work),
      stream_(stream),
      bytes_(static_cast<std::size_t>(shape.m * shape.n) * (shape.out == CUDA_R_32F ? 4 : 2)) {
  for (cudaEvent_t& event : events_) check(cudaEventCreate(&event));
  if (operands.beta == 0 || operands.added != operands.c) return;
  before_ = std::make_unique_for_overwrite<std::byte[]>(bytes_);
  check(cudaMemcpyAsync(before_.get(), operands.c, bytes_, cudaMemcpyDefault, stream));
}

Search::~Search() {
  if (before_) cudaMemcpyAsync(operands_.c, before_.get(), bytes_, cudaMemcpyDefault, stream_);
  cudaStreamSynchronize(stream_);
  for (cudaEvent_t& event : events_) cudaEventDestroy(event);
}

bool Search::run(const cublasLtMatmulAlgo_t& algorithm) {
  return multiply(library_, plan_, operands_, algorithm, work_, stream_) == CUBLAS_STATUS_SUCCESS;
}

// A hash of the result that the algorithm gives where what is added to is the same number
// everywhere; none where the algorithm does not run.
std::optional<std::uint64_t> Search::digest_by(const cublasLtMatmulAlgo_t& algorithm) {
  constexpr int kByte = 0x3f;  // of numbers near 1 in all types
  if (before_) check(cudaMemsetAsync(operands_.c, kByte, bytes_, stream_));
  if (!run(algorithm)) return std::nullopt;
  auto* const of_result = static_cast<std::uint64_t*>(work_);  // the product is through with it
  digest(of_result, static_cast<const std::uint16_t*>(operands_.c),
         static_cast<std::int64_t>(bytes_ / sizeof(std::uint16_t)), stream_);
  std::uint64_t value = 0;
  check(cudaMemcpyAsync(&value, of_result, sizeof value, cudaMemcpyDefault, stream_));
  check(cudaStreamSynchronize(stream_));
  return value;
}

float Search::milliseconds(const cublasLtMatmulAlgo_t& algorithm, int runs) {
  float time = 0;
  check(cudaEventRecord(events_[0], stream_));
  for (int i = 0; i < runs; ++i) run(algorithm);
  check(cudaEventRecord(events_[1], stream_));
  check(cudaEventSynchronize(events_[1]));
  check(cudaEventElapsedTime(&time, events_[0], events_[1]));
  return time / static_cast<float>(runs);
}

cublasLtMatmulAlgo_t Search::fastest(std::vector<cublasLtMatmulAlgo_t> algorithms,
                                     const Care& care) {
  const cublasLtMatmulAlgo_t first = algorithms.front();
  const std::optional<std::uint64_t> expected = digest_by(first);
  if (!expected) return first;
  const auto others = std::remove_if(
      algorithms.begin() + 1, algorithms.end(),
      [&](const cublasLtMatmulAlgo_t& algorithm) { return digest_by(algorithm) != expected; });
  algorithms.erase(others, algorithms.end());
  std::vector<Contender> contenders;
  for (const auto& algorithm : algorithms)
    contenders.push_back({algorithm, milliseconds(algorithm, 3)});
  const float near = care.near * std::ranges::min(contenders, {}, &Contender::alone).alone;
  std::erase_if(contenders, [&](const Contender& x) { return x.alone > near; });
  for (int round = 0; round < care.rounds && contenders.size() > 1; ++round) {
    for (Contender& x : contenders) {
      const auto runs = [&](float time) { return std::max(1, static_cast<int>(time / x.alone)); };
      milliseconds(x.algorithm, runs(care.before));
      x.together += milliseconds(x.algorithm, runs(care.measured));
    }
    const float reach =
        kOutOfReach * std::ranges::min(contenders, {}, &Contender::together).together;
    std::erase_if(contenders, [&](const Contender& x) { return x.together > reach; });
    std::ranges::reverse(contenders);  // the next is timed behind others
  }
  return std::ranges::min(contenders, {}, &Contender::together).algorithm;
}

}  // namespace mt::cuda::lt
