// Functions of NVIDIA's driver, without linking its library.
#pragma once

#include <cuda.h>

#include "base/error.h"
#include "kernels/cuda_check.h"

namespace mt::cuda {

// The driver's function of this one's type.  Exit::unavailable if the driver does not have it.
template <auto* kFunction>
auto* of_driver(const char* name) {
  static const auto found = [&] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result;
    check(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result));
    if (result != cudaDriverEntryPointSuccess)
      fail(Exit::unavailable, "the NVIDIA driver is older than CUDA 12");
    return reinterpret_cast<decltype(kFunction)>(function);
  }();
  return found;
}

}  // namespace mt::cuda
