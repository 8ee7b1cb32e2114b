// Errors of the CUDA runtime.
#pragma once

#include <cuda_runtime.h>

namespace mt::cuda {

// Exit::internal, with what the runtime says of the error.  It stands in a file of its own since
// base/error.h takes a third of the time that a small kernel is compiled for.
[[noreturn]] void fail_with(cudaError_t error);

inline void check(cudaError_t error) {
  if (error != cudaSuccess) fail_with(error);
}

}  // namespace mt::cuda
