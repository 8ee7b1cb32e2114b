// kernels/cached_codes.h: keys and values of a cache in eight bits a number, E4M3, with a scale for
// all keys and one for all values, as vLLM's cache has them.
//   code = E4M3 of x / scale, ties to even, the largest of its sign where that is beyond 448
//   x ~ code scale, which is rounded to T
// put_codes: tokens' keys and values, [tokens, width], go to their places in the cache, [slots,
// capacity, width], as of cached_qkv.h.  get_codes: those of a sequence's first tokens become
// [most, width], where rows behind `length` of these, on its device, or null for all, are left.
// T: float or double; on the GPU float, bf16 or fp16.  On the GPU width is a multiple of 4.
#pragma once

#include <cstdint>

#include "kernels/cache_place.h"
#include "kernels/cuda_types.h"

namespace mt {

struct CacheScales {
  float keys = 1, values = 1;
};

// The cache, and where its sequences lie there.
template <class Code>
struct CachedCodes {
  Code *keys = nullptr, *values = nullptr;
  const std::int32_t* slots = nullptr;  // [sequences, runs], or null
  std::int64_t capacity = 0, runs = 1, width = 0;
  CacheScales scales = {};
};

template <class T>
struct PutCodes {
  const T *keys = nullptr, *values = nullptr;
  const std::int32_t* positions = nullptr;   // [tokens]
  std::int64_t tokens = 0, of_sequence = 1;  // tokens of each
};

template <class T>
struct GetCodes {
  T *keys = nullptr, *values = nullptr;
  std::int64_t sequence = 0, most = 0;
  const std::int32_t* length = nullptr;
};

}  // namespace mt

namespace mt::cpu {
template <class T>
void put_codes(const CachedCodes<std::uint8_t>& cache, const PutCodes<T>& rows);
template <class T>
void get_codes(const GetCodes<T>& rows, const CachedCodes<const std::uint8_t>& cache);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void put_codes(const CachedCodes<std::uint8_t>& cache, const PutCodes<T>& rows,
               cudaStream_t stream);
template <class T>
void get_codes(const GetCodes<T>& rows, const CachedCodes<const std::uint8_t>& cache,
               cudaStream_t stream);
}  // namespace mt::cuda
