// kernels/dependent.cuh: kernels that begin before the one queued ahead of them has ended (Hopper's
// programmatic dependent launch), so that short kernels in a row do not wait for each other's
// launches.
//
// A kernel launched by launch_dependent() calls wait_for_kernel_before() before it touches anything
// that a kernel before it writes or reads, and let_next_kernel_begin() as early as it likes, so
// that several of them may be waiting in a row.  What it reads earlier must be older than the last
// kernel that was launched otherwise.  All of its threads must wait, so that its end says that the
// kernel before it has ended too.
#pragma once

#include <cstdint>

#include "kernels/cuda_check.h"
#include "kernels/gpu.h"

namespace mt::cuda {

__device__ inline void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ inline void let_next_kernel_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Kernels in a row whose blocks shall lie on a multiprocessor together all have its memory divided
// so: it is divided otherwise only while none of them is there.
template <class... Parameters>
void leave_memory_shared(void (*kernel)(Parameters...)) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared));
}

template <class... Parameters, class... Arguments>
void launch_dependent(void (*kernel)(Parameters...), std::int64_t blocks, int threads,
                      std::size_t shared_bytes, cudaStream_t stream,
                      const Arguments&... arguments) {
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = hopper_kernels() ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

}  // namespace mt::cuda
