// How a kernel that stays on every multiprocessor is launched.
#pragma once

#include <algorithm>

#include "kernels/cuda_check.h"
#include "kernels/gpu.h"

namespace mt::cuda {

// One block a multiprocessor, or one a tile where there are fewer tiles.
template <class Kernel, class Arguments>
void launch_persistent(Kernel* kernel, const Arguments& arguments, int tiles, int threads,
                       std::size_t shared_bytes, cudaStream_t stream) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes)));
  kernel<<<std::min(tiles, multiprocessors()), threads, shared_bytes, stream>>>(arguments);
  check(cudaGetLastError());
}

}  // namespace mt::cuda
