// whole_number: what a real number is as an integer, for those that say both the same way.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

namespace mt {

// None where it has a fraction, or is so large that its neighbours are no longer one apart.
inline std::optional<std::int64_t> whole_number(double number) {
  if (!(std::abs(number) < 0x1p53) || number != std::floor(number)) return {};
  return static_cast<std::int64_t>(number);
}

}  // namespace mt
