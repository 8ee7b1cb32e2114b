// What kernels for Hopper (sm_90a) say in PTX: barriers in shared memory, the copy engine (TMA),
// descriptors of operands for wgmma.cuh, and the register budget of a warp group (PTX ISA 8.0).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/fast_math.cuh"
#include "kernels/ptx.cuh"

namespace mt::cuda {

inline constexpr int kWarpGroup = 128;  // threads

// A barrier in shared memory.  Its phases alternate in parity, from 0; wait(parity) returns once a
// phase of that parity is over, so waiting for 1 on a new barrier returns at once.
struct Barrier {
  std::uint64_t state;

  __device__ void init(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)),
                 "r"(arrivals));
  }
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
  }
  // One arrival for each warp of the block's threads that call it, after what all its lanes did.
  // For what wgmma has read: compute-sanitizer's racecheck does not follow it from other lanes' own
  // reads to the copy engine's writes.
  __device__ void arrive_by_warps() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive();
  }
  // Arrives, and adds `bytes` of copies to what the phase waits for.
  __device__ void arrive_and_expect(int bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)),
        "r"(bytes)
        : "memory");
  }
  __device__ void wait(int parity) {
    asm volatile(
        "{.reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;}" ::"r"(shared_address(this)),
        "r"(parity)
        : "memory");
  }
};

// A stage of a ring of `kStages` and the parity of its current round.
template <int kStages>
struct Ring {
  int stage = 0, parity;
  __device__ void advance() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

// After the inits, before the block's first __syncthreads().
__device__ inline void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// All threads of a cluster's blocks: no memory is ordered but the inits above.
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Where p, of this block's shared memory, is in that of another block of the cluster.
__device__ inline std::uint32_t in_block(const void* p, int rank) {
  std::uint32_t place;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(place)
               : "r"(shared_address(p)), "r"(rank));
  return place;
}
// An arrival at a barrier of a block of the cluster, where in_block() says it is, of block scope by
// default.  What this block has stored the other need not see then: a release to the cluster would
// make the arrival wait for all stores on their way.
__device__ inline void arrive_at(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Numbers into another block's shared memory, counted by a barrier there as copies are.
__device__ inline void send(std::uint32_t to, float x, std::uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to),
      "r"(__float_as_uint(x)), "r"(barrier)
      : "memory");
}
__device__ inline void send(std::uint32_t to, float x, float y, std::uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(
          to),
      "r"(__float_as_uint(x)), "r"(__float_as_uint(y)), "r"(barrier)
      : "memory");
}

// Named barriers 0 to 15 of a block; `threads` counts those that arrive and those that wait.
__device__ inline void named_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Ordinary stores to shared memory before it are seen by the copy engine and by wgmma after it.
__device__ inline void fence_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Copies by the engine.  Loads complete on a barrier, stores and sums by store_commit and
// store_wait of the same thread.
__device__ inline void load_tile(void* to, const CUtensorMap& map, Barrier& barrier, int c0, int c1,
                                 int c2, int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}
// ... to the same place in each block of the cluster whose bit is set, and its barrier there.
__device__ inline void load_tile_to_blocks(unsigned blocks, void* to, const CUtensorMap& map,
                                           Barrier& barrier, int c0, int c1, int c2, int c3,
                                           int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4),
      "h"(static_cast<unsigned short>(blocks))
      : "memory");
}
__device__ inline void store_tile(const CUtensorMap& map, const void* from, int c0, int c1, int c2,
                                  int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group "
      "[%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(&map),
      "r"(shared_address(from)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}
__device__ inline void load_bytes(void* to, const void* from, int bytes, Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(&barrier))
      : "memory");
}
__device__ inline void store_bytes(void* to, const void* from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
}
__device__ inline void add_floats(float* to, const float* from, int bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
      "r"(shared_address(from)), "r"(bytes)
      : "memory");
}
__device__ inline void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// All stores committed by this thread have been read from shared memory.
__device__ inline void store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
// ... and have been written.
__device__ inline void store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Blocks that take turns at a place in memory, which they change by stores and sums of the engine:
// wait_for(turns, n) returns after another's publish(turns, n), and what its engine wrote before is
// there.
__device__ inline void wait_for(const int* turns, int n) {
  int seen;
  do {
    asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(turns) : "memory");
  } while (seen != n);
  asm volatile("fence.acq_rel.gpu;\nfence.proxy.async.global;" ::: "memory");
}
__device__ inline void publish(int* turns, int n) {
  asm volatile("fence.proxy.async.global;\nst.release.gpu.global.s32 [%0], %1;" ::"l"(turns), "r"(n)
               : "memory");
}

__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most kPending committed groups are on their way.
template <int kPending>
__device__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// No access to d moves across it.
template <int N>
__device__ void pin(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Registers of each thread of the warp group from here on.
template <int kRegisters>
__device__ void give_registers_back() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Operands in shared memory are tiles of 64 bf16 (128 bytes) a row, 1024-byte aligned, their
// 16-byte units swizzled as the engine's 128-byte mode does: unit u of row r lies at u ^ r % 8.
__device__ inline int swizzled(int row, int unit) { return row * 64 + (unit ^ row % 8) * 8; }

// The low word of a descriptor: the same in every lane, and computed where it stands (a shuffle is
// not hoisted out of loops, where many descriptors would fill the registers).
// next_tile: bytes from one tile of 64 columns to the next, where a transposed operand has several.
__device__ inline std::uint32_t operand(const void* p, int next_tile = 16) {
  const std::uint32_t word =
      (shared_address(p) & 0x3ffff) >> 4 | static_cast<std::uint32_t>(next_tile >> 4) << 16;
  return __shfl_sync(0xffffffff, word, 0);
}
// The descriptor of the part `bytes` into the operand; eight rows lie 1024 bytes from the next.
__device__ inline std::uint64_t part(std::uint32_t operand, int bytes) {
  constexpr std::uint64_t kHigh = 1u << 30 | 1024 >> 4;
  return kHigh << 32 | (operand + static_cast<std::uint32_t>(bytes >> 4));
}
// Columns [16 k, 16 k + 16) of an operand of `rows` rows that is stored by rows.
__device__ inline std::uint64_t columns16(std::uint32_t operand, int k, int rows) {
  return part(operand, k / 4 * rows * 128 + k % 4 * 32);
}
// Rows [16 k, 16 k + 16) of a transposed operand.
__device__ inline std::uint64_t rows16(std::uint32_t operand, int k) {
  return part(operand, k * 16 * 128);
}

// Four 8 x 8 matrices of bf16, as wgmma's results lie in a warp, to the rows at `to` of each lane.
__device__ inline void store_matrices(void* to, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                      std::uint32_t d) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(to)),
      "r"(a), "r"(b), "r"(c), "r"(d)
      : "memory");
}

}  // namespace mt::cuda
