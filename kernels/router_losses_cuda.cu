// A warp has a row, a block counts an expert of a group.
#include "kernels/experts.h"
#include "kernels/router_losses.h"
#include "kernels/router_row.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;

template <class T>
struct Logits {
  const T* logits;
  __device__ float operator()(std::int64_t e) const { return to_float(logits[e]); }
};

// A row's softmax, its scores, and the logarithm of the sum of exponentials, as its warp sees them.
template <class T>
class Row {
 public:
  __device__ Row(const T* z, const RouterGroups& s) : z_{z}, s_(s), softmax_(z_, s.experts) {
    if (scores_each(s.scores()))
      for (std::int64_t e = threadIdx.x % 32; e < s.experts; e += 32)
        whole_ += own_score(z_(e), s.scores());
    whole_ = over_lanes(whole_) + float{kLeastScoreSum};
  }
  __device__ float log_sum() const { return softmax_.log_sum(); }
  __device__ float softmax(std::int64_t e) const { return softmax_(e); }
  __device__ float score(std::int64_t e) const {
    return scores_each(s_.scores()) ? own_score(z_(e), s_.scores()) / whole_ : softmax(e);
  }
  __device__ float slope(std::int64_t e) const {
    return scores_each(s_.scores()) ? own_slope(z_(e), s_.scores()) : 1;
  }
  __device__ float balance(const float* counts) const {
    float sum = 0;
    for (std::int64_t e = threadIdx.x % 32; e < s_.experts; e += 32) sum += counts[e] * score(e);
    return over_lanes(sum);
  }

 private:
  Logits<T> z_;
  const RouterGroups& s_;
  RowSoftmax<Logits<T>> softmax_;
  float whole_ = 0;
};

__global__ __launch_bounds__(kThreads) void count_kernel(float* counts, const std::int32_t* expert,
                                                         RouterGroups s) {
  __shared__ int shared[kWarps];
  const std::int64_t group = blockIdx.y,
                     begin = max(group * s.group_rows - s.first, std::int64_t{0}) * s.chosen,
                     end = min((group + 1) * s.group_rows - s.first, s.rows) * s.chosen;
  int count = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads)
    count += expert[i] == blockIdx.x;
  count = over_block(count, shared);
  if (threadIdx.x == 0) counts[group * s.experts + blockIdx.x] = static_cast<float>(count);
}

template <class T>
__global__ __launch_bounds__(kThreads) void losses_kernel(double* balance, double* square,
                                                          const T* logits, const float* counts,
                                                          RouterGroups s) {
  const std::int64_t r = blockIdx.x * std::int64_t{kWarps} + threadIdx.x / 32;
  if (r >= s.rows) return;
  const Row<T> row(logits + r * s.experts, s);
  const float sum = row.balance(counts + (s.first + r) / s.group_rows * s.experts),
              log_sum = row.log_sum();
  if (threadIdx.x % 32 != 0) return;
  balance[r] = sum;
  square[r] = log_sum * log_sum;
}

// One block adds up all rows.
__global__ __launch_bounds__(kThreads) void sums_kernel(double* sums, const double* balance,
                                                        const double* square, const float* counts,
                                                        RouterFactors factors, RouterGroups s) {
  __shared__ double shared[2][kWarps];
  double all = 0, squares = 0;
  for (std::int64_t r = threadIdx.x; r < s.rows; r += kThreads) {
    all += balance[r];
    squares += square[r];
  }
  all = over_block(all, shared[0]);
  squares = over_block(squares, shared[1]);
  if (threadIdx.x == 0) {
    sums[0] += factors.by_balance * all;
    sums[1] += factors.by_square * squares;
  }
  for (std::int64_t e = threadIdx.x; e < s.experts; e += kThreads)
    for (std::int64_t g = 0; g < s.groups; ++g) sums[2 + e] += counts[g * s.experts + e];
}

template <class T>
__global__ __launch_bounds__(kThreads) void losses_backward_kernel(
    T* d_logits, const T* logits, const float* counts, RouterFactors factors, const double* scale,
    const double* weight, RouterGroups s) {
  const std::int64_t r = blockIdx.x * std::int64_t{kWarps} + threadIdx.x / 32;
  if (r >= s.rows) return;
  const double by = (scale != nullptr ? *scale : 1) * (weight != nullptr ? *weight : 1);
  const auto by_balance = static_cast<float>(factors.by_balance * by),
             by_square = static_cast<float>(factors.by_square * by);
  const Row<T> row(logits + r * s.experts, s);
  const float* const n = counts + (s.first + r) / s.group_rows * s.experts;
  const float mean = row.balance(n), log_sum = row.log_sum();
  for (std::int64_t e = threadIdx.x % 32; e < s.experts; e += 32) {
    T& d = d_logits[r * s.experts + e];
    d = static_cast<T>(to_float(d) + by_balance * row.score(e) * row.slope(e) * (n[e] - mean) +
                       by_square * 2 * log_sum * row.softmax(e));
  }
}

__global__ __launch_bounds__(kThreads) void mean_kernel(float* counts, double* so_far,
                                                        std::int64_t experts) {
  __shared__ double shared[2][kWarps];
  double own = 0, all = 0;
  for (std::int64_t e = threadIdx.x; e < experts; e += kThreads) {
    own += counts[e];
    all += so_far[e] += counts[e];
  }
  own = over_block(own, shared[0]);
  all = over_block(all, shared[1]);
  for (std::int64_t e = threadIdx.x; e < experts; e += kThreads)
    counts[e] = static_cast<float>(so_far[e] * own / all);
}

unsigned blocks_of_warps(std::int64_t rows) {
  return static_cast<unsigned>(ceil_div(rows, std::int64_t{kWarps}));
}

}  // namespace

void count_experts(float* counts, const std::int32_t* expert, const RouterGroups& s,
                   cudaStream_t stream) {
  const dim3 blocks(static_cast<unsigned>(s.experts), static_cast<unsigned>(s.groups));
  count_kernel<<<blocks, kThreads, 0, stream>>>(counts, expert, s);
  check(cudaGetLastError());
}

template <class T>
void router_losses(double* balance, double* square, const T* logits, const float* counts,
                   const RouterGroups& s, cudaStream_t stream) {
  if (s.rows == 0) return;
  losses_kernel<<<blocks_of_warps(s.rows), kThreads, 0, stream>>>(balance, square, logits, counts,
                                                                  s);
  check(cudaGetLastError());
}

void add_router_sums(double* sums, const double* balance, const double* square, const float* counts,
                     const RouterFactors& factors, const RouterGroups& s, cudaStream_t stream) {
  sums_kernel<<<1, kThreads, 0, stream>>>(sums, balance, square, counts, factors, s);
  check(cudaGetLastError());
}

template <class T>
void router_losses_backward(T* d_logits, const T* logits, const float* counts,
                            const RouterFactors& factors, const double* scale, const double* weight,
                            const RouterGroups& s, cudaStream_t stream) {
  if (s.rows == 0) return;
  losses_backward_kernel<<<blocks_of_warps(s.rows), kThreads, 0, stream>>>(
      d_logits, logits, counts, factors, scale, weight, s);
  check(cudaGetLastError());
}

void mean_counts(float* counts, double* so_far, std::int64_t experts, cudaStream_t stream) {
  mean_kernel<<<1, kThreads, 0, stream>>>(counts, so_far, experts);
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                                       \
  template void router_losses(double*, double*, const T*, const float*, const RouterGroups&, \
                              cudaStream_t);                                                 \
  template void router_losses_backward(T*, const T*, const float*, const RouterFactors&,     \
                                       const double*, const double*, const RouterGroups&,    \
                                       cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
