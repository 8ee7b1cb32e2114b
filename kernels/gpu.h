// kernels/gpu.h: what the current GPU has, and which of several kernels it runs.
#pragma once

namespace mt::cuda {

// Whether kernels that need Hopper (sm_90a) run: on such a GPU, unless the environment variable
// MT_KERNELS is "generic", which asks for those that every GPU from sm_80 on has.  The variable is
// read once.
bool hopper_kernels();

int multiprocessors();

}  // namespace mt::cuda
