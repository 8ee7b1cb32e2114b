#include "base/error.h"
#include "kernels/cached_codes.cuh"
#include "kernels/cached_codes.h"
#include "kernels/cuda_check.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256, kAtOnce = 4;

// A block works on a token.
template <class T>
__global__ __launch_bounds__(kThreads) void put_kernel(const CachedCodes<std::uint8_t> cache,
                                                       const PutCodes<T> rows) {
  const std::int64_t token = blockIdx.x,
                     row = row_in_cache(cache.slots, cache.runs, cache.capacity,
                                        token / rows.of_sequence, rows.positions[token]);
  const auto put = [&](std::uint8_t* to, const T* from, int i, float scale) {
    float x[kAtOnce];
    for (int n = 0; n < kAtOnce; ++n) x[n] = to_float(from[token * cache.width + i + n]);
    *reinterpret_cast<std::uint32_t*>(to + row * cache.width + i) = codes_of(x, scale);
  };
  for (int i = static_cast<int>(threadIdx.x) * kAtOnce; i < cache.width; i += kThreads * kAtOnce) {
    put(cache.keys, rows.keys, i, cache.scales.keys);
    put(cache.values, rows.values, i, cache.scales.values);
  }
}

template <class T>
__global__ __launch_bounds__(kThreads) void get_kernel(
    const GetCodes<T> rows, const CachedCodes<const std::uint8_t> cache) {
  const std::int64_t token = blockIdx.x;
  if (rows.length != nullptr && token >= *rows.length) return;
  const std::int64_t row =
      row_in_cache(cache.slots, cache.runs, cache.capacity, rows.sequence, token);
  const auto get = [&](T* to, const std::uint8_t* from, int i, float scale) {
    const auto codes = *reinterpret_cast<const std::uint32_t*>(from + row * cache.width + i);
    numbers_of(to + token * cache.width + i, codes, scale);
  };
  for (int i = static_cast<int>(threadIdx.x) * kAtOnce; i < cache.width; i += kThreads * kAtOnce) {
    get(rows.keys, cache.keys, i, cache.scales.keys);
    get(rows.values, cache.values, i, cache.scales.values);
  }
}

void check_width(std::int64_t width) {
  if (width % kAtOnce != 0)
    fail(Exit::unavailable, "a cache in eight bits on a GPU: keys of ", width,
         " numbers, expected a multiple of ", kAtOnce);
}

}  // namespace

template <class T>
void put_codes(const CachedCodes<std::uint8_t>& cache, const PutCodes<T>& rows,
               cudaStream_t stream) {
  check_width(cache.width);
  if (rows.tokens * cache.width == 0) return;
  put_kernel<<<static_cast<unsigned>(rows.tokens), kThreads, 0, stream>>>(cache, rows);
  check(cudaGetLastError());
}

template <class T>
void get_codes(const GetCodes<T>& rows, const CachedCodes<const std::uint8_t>& cache,
               cudaStream_t stream) {
  check_width(cache.width);
  if (rows.most * cache.width == 0) return;
  get_kernel<<<static_cast<unsigned>(rows.most), kThreads, 0, stream>>>(rows, cache);
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                                         \
  template void put_codes(const CachedCodes<std::uint8_t>&, const PutCodes<T>&, cudaStream_t); \
  template void get_codes(const GetCodes<T>&, const CachedCodes<const std::uint8_t>&, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
