// Lists of Megatron's flags that a program implies or refuses, by reason:
//   refuse(cl, "fp8 is not supported", {{"--fp8-format"}, {"--fp8-margin", only(0)}});
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/command.h"

namespace mt {

// A flag and what may follow it.  Without a value nothing may.
struct Flag {
  struct Value {
    OptionTarget type = kNoValue;
    Check check = {};
  };
  const char* name;
  Value value = {};
};

// Any value of a type; or the one value that is true of every run here.
inline Flag::Value any(OptionTarget type) { return {type, {}}; }
inline Flag::Value only(std::int64_t value) {
  return {kInteger, between(static_cast<double>(value), static_cast<double>(value))};
}
inline Flag::Value only(int value) { return only(static_cast<std::int64_t>(value)); }
inline Flag::Value only(double value) { return {kNumber, between(value, value)}; }
inline Flag::Value only(const char* value) { return {kText, one_of({value})}; }
inline Flag::Value each(std::vector<std::string> choices) {
  return {kText, one_of(std::move(choices))};
}

// Whether the program has an option of this name: others of Megatron's have it, too.
inline bool declares(const CommandLine& cl, std::string_view name) {
  return std::ranges::any_of(cl.table().options, [&](const Option& option) {
    return std::ranges::count(option.names, name) > 0;
  });
}

inline void imply(CommandLine& cl, const char* why, std::initializer_list<Flag> flags) {
  for (const Flag& flag : flags) cl.implied(flag.name, why, flag.value.type, flag.value.check);
}
inline void refuse(CommandLine& cl, const char* why, std::initializer_list<Flag> flags) {
  for (const Flag& flag : flags) cl.refused(flag.name, why, flag.value.type, flag.value.check);
}

// These take, of flags that several programs imply or refuse, the ones that this program has no
// option for.
inline void imply_others(CommandLine& cl, const char* why, std::initializer_list<Flag> flags) {
  for (const Flag& flag : flags)
    if (!declares(cl, flag.name)) imply(cl, why, {flag});
}
inline void refuse_others(CommandLine& cl, const char* why, std::initializer_list<Flag> flags) {
  for (const Flag& flag : flags)
    if (!declares(cl, flag.name)) refuse(cl, why, {flag});
}

}  // namespace mt
