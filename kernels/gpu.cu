#include "kernels/gpu.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "kernels/cuda_check.h"

namespace mt::cuda {

static bool generic_asked() {
  static const bool asked = [] {
    const char* name = std::getenv("MT_KERNELS");
    return name && std::string_view(name) == "generic";
  }();
  return asked;
}

static int attribute(cudaDeviceAttr of) {
  int device = 0, value = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&value, of, device));
  return value;
}

__global__ static void any_kernel() {}

// One kernel's attributes are those of all, as all files are compiled for the same: ptxVersion
// says what for, binaryVersion what the driver made of it.
static const cudaFuncAttributes& of_kernels() {
  static const cudaFuncAttributes found = [] {
    cudaFuncAttributes attributes = {};
    check(cudaFuncGetAttributes(&attributes, any_kernel));
    return attributes;
  }();
  return found;
}

Code code() {
  const cudaFuncAttributes& kernels = of_kernels();
  if (kernels.ptxVersion < 80) return Code::turing;
  const bool hopper = kHopper && kernels.ptxVersion == 90 && kernels.binaryVersion == 90;
  return hopper ? Code::hopper : Code::generic;
}

bool has_clusters() { return of_kernels().ptxVersion >= 90; }

bool hopper_kernels() { return code() == Code::hopper && !generic_asked(); }

int multiprocessors() { return attribute(cudaDevAttrMultiProcessorCount); }

std::size_t most_shared_bytes() {
  const auto bytes = static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  return generic_asked() ? std::min(bytes, kSharedBytes<Code::generic>) : bytes;
}

}  // namespace mt::cuda
