// kernels/async_copy.cuh: 16 bytes from global to shared memory behind a thread's back (cp.async,
// sm_80).  Copies complete in the order of commits; what a thread copied itself it sees after its
// wait, other threads after a barrier.
#pragma once

#include <cstdint>

namespace mt::cuda {

__device__ inline void copy_async(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(global)
               : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most kPending commits are on their way.
template <int kPending>
__device__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace mt::cuda
