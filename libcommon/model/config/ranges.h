// Range: which values a setting may have.  An option checks what it is given (base/option.h); what
// a checkpoint says has passed no option's check and is held to `stored`, within which no extent,
// and no product of extents, overflows.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/option.h"

namespace mt {

struct Range {
  Check given = {}, stored = {};
};

inline Range any_value() { return {}; }
inline Range count_to(double most) { return {at_least(1), between(1, most)}; }
inline Range count() { return {at_least(1), at_least(1)}; }
inline Range part_to(double most) { return {between(0, most), between(0, most)}; }
inline Range positive() { return {greater_than(0), greater_than(0)}; }
inline Range not_negative() { return {at_least(0), at_least(0)}; }
inline Range choice(const std::vector<std::string>& choices) {
  return {one_of(choices), one_of(choices)};
}

// Gives a range whose option is stricter than what a checkpoint may say.
inline Range as_given(Check given, Check stored = {}) {
  return {std::move(given), std::move(stored)};
}

inline constexpr double kMany = 4096, kWide = 1 << 20, kIds = 2147483647;

// These throw Exit::bad_config where the value is not what the check asks for; the line begins with
// the name.
void check_range(const char* name, std::int64_t value, const Check& check);
void check_range(const char* name, double value, const Check& check);
void check_range(const char* name, const std::string& value, const Check& check);

}  // namespace mt
