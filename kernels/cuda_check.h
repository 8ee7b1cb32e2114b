// Errors of the CUDA runtime.
#pragma once

#include <cuda_runtime.h>

#include "base/error.h"

namespace mt::cuda {

inline void check(cudaError_t error) {
  if (error != cudaSuccess) fail(Exit::internal, "CUDA: ", cudaGetErrorString(error));
}

}  // namespace mt::cuda
