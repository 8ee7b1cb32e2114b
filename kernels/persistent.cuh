// How a kernel that stays on every multiprocessor is launched.
#pragma once

#include <algorithm>

#include "kernels/cuda_check.h"

namespace mt::cuda {

// One block a multiprocessor, or one a tile where there are fewer tiles.
template <class Kernel, class Arguments>
void launch_persistent(Kernel* kernel, const Arguments& arguments, int tiles, int threads,
                       std::size_t shared_bytes, cudaStream_t stream) {
  int device = 0, multiprocessors = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes)));
  kernel<<<std::min(tiles, multiprocessors), threads, shared_bytes, stream>>>(arguments);
  check(cudaGetLastError());
}

}  // namespace mt::cuda
