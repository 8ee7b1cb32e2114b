// fits_float: whether float32, which models compute in, has a number that a file or a program says:
// not 1e300, an infinity, or NaN.
#pragma once

#include <cmath>
#include <limits>

namespace mt {

inline bool fits_float(double number) {
  return std::abs(number) <= std::numeric_limits<float>::max();
}

}  // namespace mt
