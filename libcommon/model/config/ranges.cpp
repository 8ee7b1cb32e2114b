#include "model/config/ranges.h"

#include "base/error.h"

namespace mt {

template <class Number>
static void check_number(const char* name, Number value, const Check& check) {
  const auto number = static_cast<double>(value);
  if (check.allows(number)) return;
  if (check.low && check.high)
    fail(Exit::bad_config, name, " ", value, ": expected ", static_cast<Number>(*check.low), " to ",
         static_cast<Number>(*check.high));
  const std::string limits = check.above_low ? "a positive number" : check.expected();
  fail(Exit::bad_config, name, " ", value, ": expected ",
       limits.empty() ? "a finite number" : limits);
}

void check_range(const char* name, std::int64_t value, const Check& check) {
  check_number(name, value, check);
}

void check_range(const char* name, double value, const Check& check) {
  check_number(name, value, check);
}

void check_range(const char* name, const std::string& value, const Check& check) {
  if (!check.allows(value))
    fail(Exit::bad_config, name, " ", value, ": expected ", check.expected());
}

}  // namespace mt
