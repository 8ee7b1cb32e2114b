#include "model/config/vision_config.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace mt {

std::array<double, 3> color_numbers(const char* flag, const std::string& list) {
  std::array<double, 3> numbers = {};
  const char *at = list.data(), *const end = at + list.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0 && at != end && *at == ',') ++at;
    double number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    const bool ends = next == end || *next == ',';
    if (error != std::errc() || !(std::abs(number) <= std::numeric_limits<float>::max()) || !ends ||
        (next == end) != (i == 2))
      fail(Exit::bad_config, flag, ' ', list, ": expected three numbers, as in 0.5,0.5,0.5");
    numbers[i] = number;
    at = next;
  }
  return numbers;
}

}  // namespace mt
