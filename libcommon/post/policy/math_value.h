// What a term of mathematics comes to: exactly where it is a rational number, and in 60 digits.
#pragma once

#include <boost/multiprecision/cpp_dec_float.hpp>
#include <boost/multiprecision/cpp_int.hpp>
#include <functional>
#include <optional>
#include <string>

#include "post/policy/math_expression.h"

namespace mt {

using Rational = boost::multiprecision::cpp_rational;
using LongFloat = boost::multiprecision::number<boost::multiprecision::cpp_dec_float<60>,
                                                boost::multiprecision::et_off>;
struct LongComplex {
  LongFloat re = 0, im = 0;
};

// Nothing where it is no rational number, has letters, or would have more than some 20,000 digits.
std::optional<Rational> rational_value(const MathExpression& term);
// With values of its letters.  Nothing where it has none there, as a quotient by zero; functions
// but powers are of real numbers alone.
std::optional<LongComplex> complex_value(
    const MathExpression& term, const std::function<LongFloat(const std::string&)>& letter);

}  // namespace mt
