#include "kernels/cuda_check.h"
#include "kernels/nf4.h"
#include "kernels/pack.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256, kNumbers = 8;  // of a thread at a time

__constant__ const Nf4Tables kTables = nf4_tables();

template <class T>  // a block of threads a row
__global__ __launch_bounds__(kThreads) void unpack_kernel(T* __restrict__ y,
                                                          const std::uint8_t* __restrict__ packed,
                                                          Nf4Shape shape) {
  // Copies, since threads that read different codes get them one after another of constants.
  __shared__ float levels[256], codes[16];
  for (int i = static_cast<int>(threadIdx.x); i < 256; i += kThreads) levels[i] = kTables.levels[i];
  if (threadIdx.x < 16) codes[threadIdx.x] = kTables.codes[threadIdx.x];
  __syncthreads();
  const std::int64_t row = blockIdx.x, of_row = shape.cols / kNf4Block;
  const std::int32_t first = reinterpret_cast<const std::int32_t*>(packed + shape.firsts_at())[row];
  const auto* const scales = reinterpret_cast<const Nf4Scale*>(packed + shape.scales_at());
  const std::uint8_t* const of_blocks = packed + shape.levels_at() + row * of_row;
  const std::uint8_t* const of_numbers = packed + row * shape.cols / 2;
  for (std::int64_t c = threadIdx.x * kNumbers; c < shape.cols; c += kThreads * kNumbers) {
    const std::int64_t block = c / kNf4Block;
    const Nf4Scale scale = scales[(first + block) / kNf4Scaled];
    // Each rounded by itself, as on the CPU.
    const float most = __fadd_rn(__fmul_rn(levels[of_blocks[block]], scale.scale), scale.offset);
    const auto four = *reinterpret_cast<const std::uint32_t*>(of_numbers + c / 2);
    float out[kNumbers];
#pragma unroll
    for (int i = 0; i < kNumbers / 2; ++i) {
      out[2 * i] = codes[four >> (8 * i + 4) & 15] * most;
      out[2 * i + 1] = codes[four >> 8 * i & 15] * most;
    }
    store(y + row * shape.cols + c, out);
  }
}

}  // namespace

template <class T>
void nf4_unpack(T* y, const std::uint8_t* packed, const Nf4Shape& shape, cudaStream_t stream) {
  if (shape.rows == 0) return;
  unpack_kernel<<<static_cast<unsigned>(shape.rows), kThreads, 0, stream>>>(y, packed, shape);
  check(cudaGetLastError());
}

template void nf4_unpack(float*, const std::uint8_t*, const Nf4Shape&, cudaStream_t);
template void nf4_unpack(bf16*, const std::uint8_t*, const Nf4Shape&, cudaStream_t);
template void nf4_unpack(fp16*, const std::uint8_t*, const Nf4Shape&, cudaStream_t);

}  // namespace mt::cuda
