// The answer that a text ends with, and whether it is the one that was wanted, as mathematics: what
// Hugging Face's Math-Verify calls parsing and verifying, for the formulas that
// post/policy/math_expression.h reads.  Of these, the first that is there and is a formula counts:
//   "final answer is" before a formula or number; \boxed{…}, the last, with those that stand close
//   before it; one behind "answer:", and then behind "answer", at most 50 characters on; the text's
//   last formula ($…$, $$…$$, \(…\), \[…\], \frac{1}{2}), number or sum of numbers.
// A letter alone is an answer in a box or a formula.
#pragma once

#include <string_view>

namespace mt {

enum class MathVerdict {
  same,
  different,
  unknown  // no part of the text is a formula that can be read
};

// Whether an answer, with $ around it or without, is a formula that can be read.
bool is_math(std::string_view wanted);
// wanted: such an answer; what is none has no verdict but `unknown`.
MathVerdict verify_math(std::string_view text, std::string_view wanted);

}  // namespace mt
