#include "kernels/cuda_check.h"

#include "base/error.h"

namespace mt::cuda {

void fail_with(cudaError_t error) { fail(Exit::internal, "CUDA: ", cudaGetErrorString(error)); }

}  // namespace mt::cuda
