#include "kernels/gpu.h"

#include <cstdlib>
#include <string_view>

#include "kernels/cuda_check.h"

namespace mt::cuda {

static bool generic_asked() {
  const char* name = std::getenv("MT_KERNELS");
  return name && std::string_view(name) == "generic";
}

bool hopper_kernels() {
  static const bool generic = generic_asked();
  if (generic) return false;
  int device = 0, major = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return major == 9;
}

}  // namespace mt::cuda
