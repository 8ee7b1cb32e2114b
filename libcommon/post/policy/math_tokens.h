// The words of a formula, as post/policy/math_expression.h reads it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mt {

struct MathToken {
  enum class Kind {
    end,
    number,  // digits, without commas between thousands
    letter,  // small
    symbol,  // of several letters, as alpha or infinity
    text,    // of \text{…} and its kin: small letters without spaces
    sign  // + - * / ^ _ ! % ( ) [ ] { } | , ; = < > <= >= != in cup pm mp & newline, set and endset
          // for \{ and \}, floor, ceil and matrix likewise; frac, binom, and functions
  } kind = Kind::end;
  std::string word;
  bool is_sign() const { return kind == Kind::sign; }
};

// The sign "?" stands for what no formula has.
std::vector<MathToken> math_tokens(std::string_view formula);
bool is_function_name(std::string_view word);  // sin, log, sqrt and others
// Whether so many small letters are a unit, singular or plural, or stand for one.
bool is_unit(std::string_view word);

}  // namespace mt
