#include "model/config/ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace mt {

void check_range(const char* name, std::int64_t value, const Check& check) {
  if (!check.low) return;
  const auto low = static_cast<std::int64_t>(*check.low),
             high = check.high ? static_cast<std::int64_t>(*check.high)
                               : std::numeric_limits<std::int64_t>::max();
  if (value < low || value > high)
    fail(Exit::bad_config, name, " ", value, ": expected ", low, " to ", high);
}

void check_range(const char* name, double value, const Check& check) {
  if (!check.low) return;
  if (check.above_low && !(value > *check.low && std::isfinite(value)))
    fail(Exit::bad_config, name, " ", value, ": expected a positive number");
  if (check.high && !(value >= *check.low && value <= *check.high))
    fail(Exit::bad_config, name, " ", value, ": expected ", *check.low, " to ", *check.high);
  if (!check.high && !(value >= *check.low && std::isfinite(value)))
    fail(Exit::bad_config, name, " ", value, ": expected ", *check.low, " or more");
}

void check_range(const char* name, const std::string& value, const Check& check) {
  if (!check.choices.empty() && std::ranges::find(check.choices, value) == check.choices.end())
    fail(Exit::bad_config, name, " ", value, ": expected ", check.expected());
}

}  // namespace mt
