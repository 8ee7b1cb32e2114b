// MathExpression: what a formula of LaTeX, or one that is written plainly, says: the formulas that
// end the answers of school and contest mathematics.
//   numbers     1,234.5  .5  1\frac{1}{2}  50\%  \frac12  3:4  5!  \binom{5}{2}
//   terms       + - \pm \cdot \times * / \div ^ \sqrt[n]{x}, |x|, \lfloor x\rfloor, letters, \pi,
//   e, i,
//               \sin and its kin, \ln, \log (to 10) and \log_b; what stands side by side is
//               multiplied, before it is divided by
//   relations   x=3, 2x+1>0, 1<x\le 2, x\in[0,1)
//   several     1, 2 or 3; \{1,2\}; (1,2,3); [0,1)\cup(2,\infty); matrices
// \left, spaces, dollars, degrees and units behind a number are passed over, \text{…} alone is a
// name. Capitals are small letters.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

struct MathExpression {
  enum class Kind {
    number,    // `word`: its digits, with a point or without
    symbol,    // `word`; pi, e, i and infinity are those constants
    sum,       // of all parts
    product,   // of all parts
    quotient,  // of two
    power,     // of two
    percent,   // of one
    function,  // `word` of the parts; log of two: of what, and to which base
    tuple,     // parts in their order
    set,       // parts in any order
    interval,  // from one part to the other
    unite,     // of intervals and sets
    relation,  // of two parts; `word` is one of = < > <= >= != in
    chain,     // relations of which each begins as the last one ended
    matrix     // of tuples, its rows
  } kind = Kind::number;
  std::string word;
  std::vector<MathExpression> parts = {};
  bool left_open = false, right_open = false;  // of an interval

  bool is_scalar() const {
    return kind <= Kind::function;
  }  // one number for each value of its letters
};

// Nothing where it is not such a formula.
std::optional<MathExpression> parse_math(std::string_view formula);

}  // namespace mt
