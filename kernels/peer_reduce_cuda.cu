#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda_check.h"
#include "kernels/pack.cuh"
#include "kernels/peer_reduce.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 512;

__device__ void release(std::uint32_t* to, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

__device__ std::uint32_t acquire(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

template <class T>
struct Sum {
  using type = float;
};
template <>
struct Sum<double> {
  using type = double;
};
template <>
struct Sum<std::int32_t> {
  using type = std::int32_t;
};

// Block b has its part of every mailbox, and its own turns.
template <class T>
__global__ __launch_bounds__(kThreads) void reduce_kernel(T* t, int count, bool largest,
                                                          PeerMailboxes boxes) {
  constexpr int kPart = static_cast<int>(PeerMailbox::kBytes / PeerMailbox::kBlocks / sizeof(T));
  const int block = static_cast<int>(blockIdx.x), begin = block * kPart,
            end = min(count, begin + kPart), thread = static_cast<int>(threadIdx.x);
  PeerMailbox& own = *boxes.of[boxes.rank];
  const std::uint32_t turn = own.turns[block] + 1;
  const auto data_of = [&](PeerMailbox& box) { return reinterpret_cast<T*>(box.data[turn % 2]); };
  for (int i = begin + thread; i < end; i += kThreads) data_of(own)[i] = t[i];
  __syncthreads();
  if (thread < boxes.ranks && thread != boxes.rank) {
    release(&boxes.of[thread]->arrived[block][boxes.rank], turn);
    while (static_cast<std::int32_t>(acquire(&own.arrived[block][thread]) - turn) < 0) {
    }
  }
  if (thread == 0) own.turns[block] = turn;
  __syncthreads();
  using S = typename Sum<T>::type;
  for (int i = begin + thread; i < end; i += kThreads) {
    S sum = static_cast<S>(__ldcv(data_of(*boxes.of[0]) + i));
    for (int rank = 1; rank < boxes.ranks; ++rank) {
      const S x = static_cast<S>(__ldcv(data_of(*boxes.of[rank]) + i));
      sum = largest ? max(sum, x) : sum + x;
    }
    t[i] = static_cast<T>(sum);
  }
}

template <int N, class T>
__global__ __launch_bounds__(kThreads) void sum_of_ranks_kernel(T* y, Addends<T> x,
                                                                std::int64_t count) {
  const std::int64_t i = (blockIdx.x * std::int64_t{kThreads} + threadIdx.x) * N;
  if (i + N <= count) {
    float sum[N];
#pragma unroll
    for (int n = 0; n < N; ++n) sum[n] = 0;
#pragma unroll 4
    for (int rank = 0; rank < x.ranks; ++rank) {
      const Pack<T, N> addend = load<N>(x.of[rank] + i);
#pragma unroll
      for (int n = 0; n < N; ++n)
        sum[n] = rank == 0 ? addend[n] : to_float(static_cast<T>(sum[n] + addend[n]));
    }
    return store(y + i, sum);
  }
  for (std::int64_t j = i; j < count; ++j) {
    float sum = to_float(x.of[0][j]);
    for (int rank = 1; rank < x.ranks; ++rank)
      sum = to_float(static_cast<T>(sum + to_float(x.of[rank][j])));
    y[j] = static_cast<T>(sum);
  }
}

}  // namespace

template <class T>
void sum_of_ranks(T* y, const Addends<T>& x, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return;
  bool wide = aligned(y);
  for (int rank = 0; rank < x.ranks; ++rank) wide = wide && aligned(x.of[rank]);
  with_width<kWide<T>>(wide, [&]<int N>() {
    const std::int64_t blocks = ceil_div(count, std::int64_t{kThreads} * N);
    sum_of_ranks_kernel<N><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(y, x, count);
  });
  check(cudaGetLastError());
}
template void sum_of_ranks(float*, const Addends<float>&, std::int64_t, cudaStream_t);
template void sum_of_ranks(__nv_bfloat16*, const Addends<__nv_bfloat16>&, std::int64_t,
                           cudaStream_t);
template void sum_of_ranks(__half*, const Addends<__half>&, std::int64_t, cudaStream_t);

template <class T>
void peer_reduce(T* t, std::int64_t count, bool largest, const PeerMailboxes& boxes,
                 cudaStream_t stream) {
  if (count == 0) return;
  constexpr std::int64_t kPart = PeerMailbox::kBytes / PeerMailbox::kBlocks / sizeof(T);
  reduce_kernel<<<static_cast<unsigned>((count + kPart - 1) / kPart), kThreads, 0, stream>>>(
      t, static_cast<int>(count), largest, boxes);
  check(cudaGetLastError());
}

template void peer_reduce(float*, std::int64_t, bool, const PeerMailboxes&, cudaStream_t);
template void peer_reduce(double*, std::int64_t, bool, const PeerMailboxes&, cudaStream_t);
template void peer_reduce(__nv_bfloat16*, std::int64_t, bool, const PeerMailboxes&, cudaStream_t);
template void peer_reduce(__half*, std::int64_t, bool, const PeerMailboxes&, cudaStream_t);
template void peer_reduce(std::int32_t*, std::int64_t, bool, const PeerMailboxes&, cudaStream_t);

}  // namespace mt::cuda
