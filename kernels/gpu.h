// kernels/gpu.h: what the current GPU has, what the kernels that it runs were compiled for, and
// which of several it runs.
#pragma once

#include <cstddef>

namespace mt::cuda {

// Kernels are compiled for one of these: their tiles differ, as blocks have so much shared memory
// at least.  `generic` is all that is neither of the others: sm_86, 89 and 120 have the least.
enum class Code { turing, generic, hopper };

template <Code kOf>
inline constexpr std::size_t kSharedBytes = (kOf == Code::turing    ? 64
                                             : kOf == Code::generic ? 99
                                                                    : 227)
                                            << 10;

// What this is, in a kernel; the host asks code().
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr Code kCode = Code::hopper;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr Code kCode = Code::turing;
#else
inline constexpr Code kCode = Code::generic;
#endif

// Whether there are kernels for Hopper alone (sm_90a): where MT_GPUS has it.
#ifdef MT_HOPPER
inline constexpr bool kHopper = true;
#else
inline constexpr bool kHopper = false;
#endif

// What the kernels that this process's GPU runs were compiled for: it may be older than the GPU.
Code code();
// ... whether for a GPU that has clusters of blocks: from sm_90 on.
bool has_clusters();

// f.operator()<code()>(), so that the host sees the kernels' own sizes.
template <class F>
auto with_code(const F& f) {
  switch (code()) {
    case Code::turing:
      return f.template operator()<Code::turing>();
    case Code::generic:
      return f.template operator()<Code::generic>();
    case Code::hopper:
      break;
  }
  return f.template operator()<Code::hopper>();
}

// Whether kernels that need Hopper run: on such a GPU, unless the environment variable MT_KERNELS
// is "generic", which asks for those that every GPU has.  The variable is read once.
bool hopper_kernels();

int multiprocessors();
// Bytes of shared memory that a block can have; where MT_KERNELS is "generic", not more than every
// GPU from sm_80 on has.
std::size_t most_shared_bytes();

}  // namespace mt::cuda
