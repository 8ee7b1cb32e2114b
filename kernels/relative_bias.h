// kernels/relative_bias.h: what T5 adds to the scores of attention for how far a key is from a
// query (Raffel et al. 2019: arXiv:1910.10683, section 2.1): a learned number for each head and
// bucket of distances.
//   bias[h, r]                      = table[bucket(r), first_head + h]   for -length < r < length
//   d_table[bucket(r), first_head + h] += d_bias[h, r]                   r in order
// r is the key's position less the query's.  A side of `count` buckets, the half of all where keys
// on both sides are seen, has one for each distance up to count / 2; the others share the distances
// up to max_distance by their logarithm, and the last has all beyond.
// bias, d_bias: [heads, 2 length - 1], from r = 1 - length on, in the type of sums;
// table, d_table: [buckets, all_heads].  T: float or double; on the GPU table float, bf16 or fp16,
// d_table float or bf16.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {

inline constexpr std::int64_t kMostRelativeBuckets = 256;

// RelativeBuckets: which distances share a bucket.  The logarithm is evaluated in f32, as others
// do, once and on the host.
struct RelativeBuckets {
  std::int32_t side = 0;    // buckets of one side
  bool both_sides = false;  // the second side's are those of keys behind the query
  std::int32_t from[kMostRelativeBuckets] = {};  // the least distance of each of a side's

  RelativeBuckets() = default;
  // buckets: of both sides together, at least 2 a side; max_distance: above a quarter of that.
  RelativeBuckets(std::int64_t buckets, std::int64_t max_distance, bool both)
      : side(static_cast<std::int32_t>(both ? buckets / 2 : buckets)), both_sides(both) {
    const std::int32_t exact = side / 2;
    const auto range = static_cast<float>(
        std::log(static_cast<double>(max_distance) / static_cast<double>(exact)));
    const auto bucket = [&](std::int64_t distance) {
      const float ratio = std::log(static_cast<float>(distance) / static_cast<float>(exact));
      return exact + static_cast<std::int64_t>(ratio / range * static_cast<float>(side - exact));
    };
    for (std::int32_t b = 0; b < side; ++b) {
      std::int64_t low = b, high = std::max<std::int64_t>(b, max_distance);
      while (b > exact && low < high) {
        const std::int64_t middle = (low + high) / 2;
        if (bucket(middle) >= b)
          high = middle;
        else
          low = middle + 1;
      }
      from[b] = static_cast<std::int32_t>(low);
    }
  }

  constexpr int operator()(std::int64_t r) const {
    const std::int64_t distance = r < 0 ? -r : both_sides ? r : 0;
    int bucket = 0;
    while (bucket + 1 < side && from[bucket + 1] <= distance) ++bucket;
    return bucket + (both_sides && r > 0 ? side : 0);
  }
};

struct RelativeShape {
  std::int64_t length = 0, heads = 0, all_heads = 0, first_head = 0;
  RelativeBuckets buckets = {};
  constexpr std::int64_t span() const { return 2 * length - 1; }
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void relative_bias(T* bias, const T* table, const RelativeShape& shape);
template <class T>
void relative_bias_backward(T* d_table, const T* d_bias, const RelativeShape& shape);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void relative_bias(float* bias, const T* table, const RelativeShape& shape, cudaStream_t stream);
template <class G>
void relative_bias_backward(G* d_table, const float* d_bias, const RelativeShape& shape,
                            cudaStream_t stream);
}  // namespace mt::cuda
