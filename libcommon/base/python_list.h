// PythonList: what Python makes of an expression of integers, lists of them, +, * and parentheses.
// Options of Megatron-LM that say something of each layer take it: ([0]*3+[1]*29).
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

namespace mt {

class PythonList {
 public:
  using List = std::vector<std::int64_t>;
  using Value = std::variant<std::int64_t, List>;

  // Both must outlive it; errors name the option.
  PythonList(std::string_view option, std::string_view text) : option_(option), text_(text) {}

  // Exit::bad_config if it is none, of numbers and lists of up to 65,536.
  Value value() const;

 private:
  std::string_view option_, text_;
};

}  // namespace mt
