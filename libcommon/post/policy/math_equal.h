// Whether what a text says is, as mathematics, what was wanted, by the rules of Hugging Face's
// Math-Verify:
//   numbers     exactly; where one is written with decimals, both rounded to six of them; a whole
//               percentage is also its number without the sign
//   terms       alike for four values of each letter, in 60 digits
//   relations   equations and inequalities that differ by a factor; beside anything else an
//   equation
//               is what stands behind its last sign
//   sets        in any order, tuples in theirs; (a, b) is an interval and a tuple
//   intervals   their ends, and whether they are open; 1<x<2 and x>2 are intervals beside one
//   names       their letters
#pragma once

#include "post/policy/math_expression.h"

namespace mt {

bool math_equal(const MathExpression& wanted, const MathExpression& said);

}  // namespace mt
