#include <cuda_runtime.h>

#include "kernels/attention_hopper.cuh"
#include "kernels/cuda_check.h"

namespace mt::cuda {

// The driver's function, without linking the driver's library.
static decltype(&cuTensorMapEncodeTiled) encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                         cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess)
    fail(Exit::unavailable, "the NVIDIA driver is older than CUDA 12");
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
}

CUtensorMap tile_map(const bf16* tensor, std::int64_t sequences, std::int64_t length,
                     std::int64_t stride, std::int64_t heads, std::int64_t head_dim, int rows) {
  const auto u64 = [](std::int64_t x) { return static_cast<cuuint64_t>(x); };
  const cuuint64_t sizes[] = {u64(head_dim), u64(heads), u64(length), u64(sequences)};
  const cuuint64_t strides[] = {u64(head_dim * 2), u64(heads * head_dim * 2),
                                u64(stride * heads * head_dim * 2)};  // bytes
  const cuuint32_t box[] = {64, 1, static_cast<cuuint32_t>(rows), 1}, step[] = {1, 1, 1, 1};
  CUtensorMap map;
  const CUresult result =
      encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, const_cast<bf16*>(tensor), sizes,
                strides, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    fail(Exit::internal, "cuTensorMapEncodeTiled: error ", static_cast<int>(result));
  return map;
}

}  // namespace mt::cuda
