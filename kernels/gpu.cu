#include "kernels/gpu.h"

#include <cstdlib>
#include <string_view>

#include "kernels/cuda_check.h"

namespace mt::cuda {

static bool generic_asked() {
  const char* name = std::getenv("MT_KERNELS");
  return name && std::string_view(name) == "generic";
}

static int attribute(cudaDeviceAttr of) {
  int device = 0, value = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&value, of, device));
  return value;
}

bool hopper_kernels() {
  static const bool generic = generic_asked();
  if (generic) return false;
  return attribute(cudaDevAttrComputeCapabilityMajor) == 9;
}

int multiprocessors() { return attribute(cudaDevAttrMultiProcessorCount); }

}  // namespace mt::cuda
