#include "kernels/alibi.h"

#include <bit>
#include <cmath>

namespace mt::cpu {
namespace {

double slope(std::int64_t head, std::int64_t all_heads) {
  const auto n = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(all_heads)));
  const auto eighths = static_cast<double>(head < n ? 2 * (head + 1) : 2 * (head - n) + 1);
  return std::exp2(-4 * eighths / static_cast<double>(n));
}

}  // namespace

template <class T>
void alibi(T* bias, const AlibiShape& shape) {
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    const double of_head = slope(shape.first_head + h, shape.all_heads);
    for (std::int64_t r = 1 - shape.length; r < shape.length; ++r)
      *bias++ = static_cast<T>(of_head * static_cast<double>(r));
  }
}

template void alibi(float*, const AlibiShape&);
template void alibi(double*, const AlibiShape&);

}  // namespace mt::cpu
