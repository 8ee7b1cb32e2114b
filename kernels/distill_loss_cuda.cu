#include "kernels/distill_loss.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Calls body(c) for this thread's words of a row.
template <class Body>
__device__ void for_words(const VocabularyPart& part, const Body& body) {
  for (std::int64_t c = threadIdx.x; c < part.words(); c += kThreads) body(c);
}

template <class X>  // one block a row
__global__ __launch_bounds__(kThreads) void sums_kernel(float* sums, DistillRows<X, float> rows) {
  __shared__ float shared[5][kThreads / 32];
  const X *x = rows.x + blockIdx.x * rows.part.cols, *y = rows.y + blockIdx.x * rows.part.cols;
  const auto inverse = static_cast<float>(1 / rows.distance.temperature);
  float top = -INFINITY, top_y = -INFINITY, sum = 0, plain = 0, sum_y = 0;
  for_words(rows.part, [&](std::int64_t c) {
    top = fmaxf(top, to_float(x[c]));
    top_y = fmaxf(top_y, to_float(y[c]));
  });
  top = over_block(top, shared[0], Largest());
  top_y = over_block(top_y, shared[1], Largest());
  for_words(rows.part, [&](std::int64_t c) {
    const float apart = to_float(x[c]) - top;
    sum += expf(apart * inverse);
    plain += expf(apart);
    sum_y += expf((to_float(y[c]) - top_y) * inverse);
  });
  sum = over_block(sum, shared[2]);
  plain = over_block(plain, shared[3]);
  sum_y = over_block(sum_y, shared[4]);
  if (threadIdx.x != 0) return;
  const std::int64_t label = rows.labels[blockIdx.x] - rows.part.first;
  const bool is_here = label >= 0 && label < rows.part.words();
  const float all[kDistillSums] = {top,   sum,   plain,
                                   top_y, sum_y, is_here ? to_float(x[label]) : 0.0F};
  for (std::int64_t i = 0; i < kDistillSums; ++i) sums[i * rows.part.rows + blockIdx.x] = all[i];
}

template <class X>
__global__ __launch_bounds__(kThreads) void parts_kernel(float* parts, DistillRows<X, float> rows) {
  __shared__ float shared[2][kThreads / 32];
  const DistillRow<float> row(rows, blockIdx.x);
  const X *x = rows.x + blockIdx.x * rows.part.cols, *y = rows.y + blockIdx.x * rows.part.cols;
  float distance = 0, slope = 0;
  for_words(rows.part, [&](std::int64_t c) {
    const auto word = row.word(to_float(x[c]), to_float(y[c]));
    distance += word.distance;
    slope += word.slope;
  });
  distance = over_block(distance, shared[0]);
  slope = over_block(slope, shared[1]);
  if (threadIdx.x != 0) return;
  parts[blockIdx.x] = distance;
  parts[rows.part.rows + blockIdx.x] = slope;
}

template <class X>
__global__ __launch_bounds__(kThreads) void gradient_kernel(float* loss, const float* weight,
                                                            const float* parts,
                                                            DistillRows<X, float> rows) {
  const std::int64_t r = blockIdx.x, count = rows.part.rows;
  const DistillRow<float> row(rows, r);
  if (threadIdx.x == 0) {
    loss[r] = parts[r];
    loss[count + r] = row.plain - row.label;
  }
  if (!weight) return;
  X* const x = rows.x + r * rows.part.cols;
  const X* const y = rows.y + r * rows.part.cols;
  const float of_distance = weight[r] * row.inverse, of_nll = weight[count + r],
              slope = parts[count + r];
  const std::int64_t label = rows.labels[r] - rows.part.first;
  const std::int64_t words = rows.part.words();
  for (std::int64_t c = threadIdx.x; c < rows.part.cols; c += kThreads) {
    const float value = to_float(x[c]);
    const auto word = row.word(value, to_float(y[c]));
    const float gradient = of_distance * (word.slope - word.p * slope) +
                           of_nll * (expf(value - row.plain) - (c == label ? 1.0F : 0.0F));
    x[c] = static_cast<X>(c < words ? gradient : 0.0F);
  }
}

unsigned blocks_of(const VocabularyPart& part) { return static_cast<unsigned>(part.rows); }

}  // namespace

template <class X>
void distill_sums(float* sums, const DistillRows<X, float>& rows, cudaStream_t stream) {
  if (rows.part.rows == 0) return;
  sums_kernel<<<blocks_of(rows.part), kThreads, 0, stream>>>(sums, rows);
  check(cudaGetLastError());
}

template <class X>
void distill_parts(float* parts, const DistillRows<X, float>& rows, cudaStream_t stream) {
  if (rows.part.rows == 0) return;
  parts_kernel<<<blocks_of(rows.part), kThreads, 0, stream>>>(parts, rows);
  check(cudaGetLastError());
}

template <class X>
void distill_gradient(float* loss, const float* weight, const float* parts,
                      const DistillRows<X, float>& rows, cudaStream_t stream) {
  if (rows.part.rows == 0) return;
  gradient_kernel<<<blocks_of(rows.part), kThreads, 0, stream>>>(loss, weight, parts, rows);
  check(cudaGetLastError());
}

#define INSTANTIATE(X)                                                                             \
  template void distill_sums(float*, const DistillRows<X, float>&, cudaStream_t);                  \
  template void distill_parts(float*, const DistillRows<X, float>&, cudaStream_t);                 \
  template void distill_gradient(float*, const float*, const float*, const DistillRows<X, float>&, \
                                 cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
