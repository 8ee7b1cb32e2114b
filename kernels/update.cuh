// kernels/update.cuh: a rule of an optimizer over chunks of flat buffers, for adam_cuda.cu and
// sgd_cuda.cu.
#pragma once

#include "kernels/cuda_check.h"
#include "kernels/pack.cuh"
#include "kernels/step_record.h"
#include "kernels/update.h"

namespace mt::cuda {

inline constexpr int kUpdateThreads = 256, kUpdateWidth = 4;

// Elements [i, end) by all of the block's threads, N at a time; returns where less than N are left.
template <int N, class Rule, class Rates>
__device__ std::int64_t update_packs(const Rule& rule, Rates& rates, std::int64_t i,
                                     std::int64_t end) {
  constexpr int kUnroll = 2;
  constexpr std::int64_t kStep = std::int64_t{kUpdateThreads} * N;
  const std::int64_t last = i + (end - i) / N * N;
  for (i += threadIdx.x * std::int64_t{N}; i < last; i += kUnroll * kStep) {
    typename Rule::template Loaded<N> at[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (i + u * kStep < last) at[u] = rule.template fetch<N>(i + u * kStep);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (i + u * kStep < last) rule.template update<N>(i + u * kStep, at[u], rates);
  }
  return last;
}

template <class Rule, class Rates>
__device__ void update_chunk(Rule rule, Rates& rates, bool wide, const UpdateChunk& chunk) {
  rule.move_state(chunk.state - chunk.first);
  rule.g += chunk.gradient_shift;
  const std::int64_t end = chunk.first + chunk.count;
  std::int64_t i = chunk.first;
  if (wide && i % kUpdateWidth == 0 && chunk.state % kUpdateWidth == 0 &&
      chunk.gradient_shift % kUpdateWidth == 0)
    i = update_packs<kUpdateWidth>(rule, rates, i, end);
  update_packs<1>(rule, rates, i, end);
}

template <class Rule>
__global__ __launch_bounds__(kUpdateThreads) void update_kernel(Rule rule, bool wide,
                                                                const UpdateChunk* chunks,
                                                                const StepRecord* record) {
  if (record->gradient_scale == 0) return;  // skipped
  const UpdateChunk chunk = chunks[blockIdx.x];
  const auto rates = rule.rates(chunk, *record);
  update_chunk(rule, rates, wide, chunk);
}

template <class Rule>
void update_chunks(const Rule& rule, bool wide, const UpdateChunk* chunks, std::int64_t chunk_count,
                   const StepRecord* record, cudaStream_t stream) {
  if (chunk_count == 0) return;
  update_kernel<<<static_cast<unsigned>(chunk_count), kUpdateThreads, 0, stream>>>(rule, wide,
                                                                                   chunks, record);
  check(cudaGetLastError());
}

}  // namespace mt::cuda
