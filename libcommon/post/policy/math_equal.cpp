#include "post/policy/math_equal.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "post/policy/math_value.h"

namespace mt {
namespace {

using Kind = MathExpression::Kind;

bool is_relation(const MathExpression& x) {
  return x.kind == Kind::relation || x.kind == Kind::chain;
}

// x, or the last of a chain.
const MathExpression& last_relation(const MathExpression& x) {
  return x.kind == Kind::chain ? x.parts.back() : x;
}
const MathExpression& first_relation(const MathExpression& x) {
  return x.kind == Kind::chain ? x.parts.front() : x;
}
const MathExpression& right_side(const MathExpression& x) { return last_relation(x).parts[1]; }

bool is_equation(const MathExpression& x) {
  const auto equates = [](const MathExpression& one) {
    return one.word == "=" || one.word == "in";
  };
  return x.kind == Kind::chain ? std::ranges::all_of(x.parts, equates)
                               : x.kind == Kind::relation && equates(x);
}

// The letters side by side that a name or a product of letters is.
std::optional<std::string> letters_of(const MathExpression& x) {
  if (x.kind == Kind::symbol) return x.word;
  if (x.kind != Kind::product && x.kind != Kind::tuple) return std::nullopt;
  std::string all;
  for (const MathExpression& part : x.parts) {
    const auto letters = letters_of(part);
    if (!letters) return std::nullopt;
    all += *letters;
  }
  return all;
}

// An equation whose left side is letters alone, as x, f(x) or (x, y) are.
bool is_assignment(const MathExpression& x) {
  if (!is_equation(x)) return false;
  const MathExpression& left = first_relation(x).parts[0];
  if (left.kind == Kind::interval)
    return letters_of(left.parts[0]).has_value() && letters_of(left.parts[1]).has_value();
  return letters_of(left).has_value();
}

void collect_letters(const MathExpression& x, std::set<std::string>& letters) {
  if (x.kind == Kind::symbol && x.word != "pi" && x.word != "e" && x.word != "i" &&
      x.word != "infinity")
    letters.insert(x.word);
  for (const MathExpression& part : x.parts) collect_letters(part, letters);
}

// Values of two terms with the same values of letters, where both have one.
struct Values {
  LongComplex a, b;
};
constexpr int kPoints = 6;

// Nothing where one has a value at a point at which the other has none, or fewer than two have.
std::optional<std::vector<Values>> values_of(const MathExpression& a, const MathExpression& b) {
  std::set<std::string> letters;
  collect_letters(a, letters);
  collect_letters(b, letters);
  std::vector<Values> values;
  const int points = letters.empty() ? 1 : kPoints;
  for (int point = 0; point < points; ++point) {
    const auto letter = [&](const std::string& name) {
      const auto place = std::distance(letters.begin(), letters.find(name));
      const LongFloat size = sqrt(LongFloat(2 + 3 * place)) * LongFloat(7 * point + 3) / 10;
      return LongFloat(point % 2 == 0 ? size : -size);
    };
    const auto of_a = complex_value(a, letter), of_b = complex_value(b, letter);
    if (of_a.has_value() != of_b.has_value()) return std::nullopt;
    if (of_a) values.push_back({*of_a, *of_b});
  }
  if (values.size() < std::min<std::size_t>(2, static_cast<std::size_t>(points)))
    return std::nullopt;
  return values;
}

LongFloat size_of(const LongComplex& x) { return LongFloat(abs(x.re)) + LongFloat(abs(x.im)); }

bool is_near(const LongComplex& a, const LongComplex& b) {
  const LongFloat apart = size_of({a.re - b.re, a.im - b.im});
  return apart <= LongFloat("1e-40") * (1 + size_of(a) + size_of(b));
}

const MathExpression& without_percent(const MathExpression& x) {
  return x.kind == Kind::percent ? x.parts[0] : x;
}
// A number, perhaps with a minus or a percent sign.
const MathExpression* literal(const MathExpression& x) {
  const MathExpression& inner = without_percent(x);
  if (inner.kind == Kind::number) return &inner;
  const bool is_negative = inner.kind == Kind::product && inner.parts.size() == 2 &&
                           inner.parts[0].word == "-1" && inner.parts[1].kind == Kind::number;
  return is_negative ? &inner.parts[1] : nullptr;
}
bool is_decimal(const MathExpression& x) {
  const MathExpression* const number = literal(x);
  return number != nullptr && number->word.find('.') != std::string::npos;
}
bool is_whole(const MathExpression& x) { return literal(x) != nullptr && !is_decimal(x); }

LongFloat rounded(const LongFloat& x) { return round(LongFloat(x * 1'000'000)); }

// -1, 0 or 1: minus infinity, none, infinity.
int infinity_of(const MathExpression& x) {
  if (x.kind == Kind::symbol) return x.word == "infinity" ? 1 : 0;
  if (x.kind == Kind::product && x.parts.size() == 2 && x.parts[0].word == "-1")
    return -infinity_of(x.parts[1]);
  return 0;
}

bool scalars_equal(const MathExpression& a, const MathExpression& b) {
  if (infinity_of(a) != 0 || infinity_of(b) != 0) return infinity_of(a) == infinity_of(b);
  if (a.kind == Kind::symbol || b.kind == Kind::symbol) {
    const auto of_a = letters_of(a), of_b = letters_of(b);
    if (of_a && of_b) return *of_a == *of_b;
  }
  if (is_whole(a) && is_whole(b) && (a.kind == Kind::percent || b.kind == Kind::percent) &&
      rational_value(without_percent(a)) == rational_value(without_percent(b)))
    return true;
  const auto exact_a = rational_value(a), exact_b = rational_value(b);
  if (exact_a && exact_b && *exact_a == *exact_b) return true;
  const bool rounds = is_decimal(a) || is_decimal(b);
  if (exact_a && exact_b && !rounds) return false;
  const auto values = values_of(a, b);
  if (!values) return false;
  return std::ranges::all_of(*values, [&](const Values& at) {
    if (rounds && at.a.im == 0 && at.b.im == 0) return rounded(at.a.re) == rounded(at.b.re);
    return is_near(at.a, at.b);
  });
}

MathExpression difference(const MathExpression& relation) {
  MathExpression minus{.kind = Kind::product,
                       .word = "",
                       .parts = {{.kind = Kind::number, .word = "-1"}, relation.parts[1]}};
  return {.kind = Kind::sum, .word = "", .parts = {relation.parts[0], std::move(minus)}};
}

std::string turned(const std::string& word) {
  if (word == "<") return ">";
  if (word == ">") return "<";
  if (word == "<=") return ">=";
  return word == ">=" ? "<=" : word;
}

// Both sides may have been multiplied, by something positive if it is an inequality.
bool single_relations_equal(const MathExpression& a, const MathExpression& b) {
  const bool same = a.word == b.word, is_turned = a.word == turned(b.word);
  if (!same && !is_turned) return false;
  if (a.word == "in")
    return math_equal(a.parts[0], b.parts[0]) && math_equal(a.parts[1], b.parts[1]);
  if (!a.parts[0].is_scalar() || !a.parts[1].is_scalar() || !b.parts[0].is_scalar() ||
      !b.parts[1].is_scalar())
    return same && math_equal(a.parts[0], b.parts[0]) && math_equal(a.parts[1], b.parts[1]);
  const auto values = values_of(difference(a), difference(b));
  if (!values) return false;
  std::optional<LongComplex> factor;
  for (const auto& [of_a, of_b] : *values) {
    const bool is_zero = is_near(of_a, {});
    if (is_zero != is_near(of_b, {})) return false;
    if (is_zero) continue;
    if (of_a.im != 0 || of_b.im != 0) return false;
    const LongComplex ratio{of_a.re / of_b.re, 0};
    if (factor && !is_near(*factor, ratio)) return false;
    factor = ratio;
  }
  if (!factor || a.word == "=" || a.word == "!=") return true;
  return same ? factor->re > 0 : factor->re < 0;
}

bool relations_equal(const MathExpression& a, const MathExpression& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == Kind::relation) return single_relations_equal(a, b);
  return std::ranges::equal(a.parts, b.parts, single_relations_equal);
}

// The numbers that an inequality, or two of one letter, hold for.
std::optional<MathExpression> interval_of(const MathExpression& x) {
  const MathExpression infinity{.kind = Kind::symbol, .word = "infinity"};
  const MathExpression lowest{
      .kind = Kind::product, .word = "", .parts = {{.kind = Kind::number, .word = "-1"}, infinity}};
  if (x.kind == Kind::relation) {
    const bool is_left = x.parts[0].kind == Kind::symbol;
    if (!is_left && x.parts[1].kind != Kind::symbol) return std::nullopt;
    const std::string word = is_left ? x.word : turned(x.word);
    const MathExpression& bound = x.parts[is_left ? 1 : 0];
    if (word == "<" || word == "<=")
      return MathExpression{Kind::interval, "", {lowest, bound}, true, word == "<"};
    if (word == ">" || word == ">=")
      return MathExpression{Kind::interval, "", {bound, infinity}, word == ">", true};
    return std::nullopt;
  }
  if (x.kind != Kind::chain || x.parts.size() != 2 || x.parts[0].parts[1].kind != Kind::symbol)
    return std::nullopt;
  const auto first = interval_of(x.parts[0]), second = interval_of(x.parts[1]);
  if (!first || !second) return std::nullopt;
  const bool begins = infinity_of(first->parts[1]) == 1;
  const MathExpression &low = begins ? *first : *second, &high = begins ? *second : *first;
  if (infinity_of(low.parts[1]) != 1 || infinity_of(high.parts[0]) != -1) return std::nullopt;
  return MathExpression{
      Kind::interval, "", {low.parts[0], high.parts[1]}, low.left_open, high.right_open};
}

bool in_order(const std::vector<MathExpression>& a, const std::vector<MathExpression>& b) {
  return std::ranges::equal(a, b, math_equal);
}

// Each of a has one of b.
bool in_any_order(const std::vector<MathExpression>& a, std::vector<MathExpression> b) {
  if (a.size() != b.size()) return false;
  for (const MathExpression& one : a) {
    const auto found = std::ranges::find_if(
        b, [&](const MathExpression& other) { return math_equal(one, other); });
    if (found == b.end()) return false;
    b.erase(found);
  }
  return true;
}

bool several_equal(const MathExpression& wanted, const MathExpression& said) {
  const auto open = [](const MathExpression& x) { return x.left_open && x.right_open; };
  if (wanted.kind == Kind::unite || said.kind == Kind::unite)
    return wanted.kind == said.kind && in_any_order(wanted.parts, said.parts);
  if (wanted.kind == Kind::matrix || said.kind == Kind::matrix)
    return wanted.kind == said.kind && in_order(wanted.parts, said.parts);
  if (wanted.kind == Kind::interval && said.kind == Kind::interval)
    return wanted.left_open == said.left_open && wanted.right_open == said.right_open &&
           in_order(wanted.parts, said.parts);
  if ((wanted.kind == Kind::interval && !open(wanted)) ||
      (said.kind == Kind::interval && !open(said)))
    return false;
  if (said.is_scalar()) return wanted.parts.size() == 1 && math_equal(wanted.parts[0], said);
  if (wanted.is_scalar()) return said.parts.size() == 1 && math_equal(wanted, said.parts[0]);
  return wanted.kind == Kind::set ? in_any_order(wanted.parts, said.parts)
                                  : in_order(wanted.parts, said.parts);
}

}  // namespace

bool math_equal(const MathExpression& wanted, const MathExpression& said) {
  if (is_equation(said) && !is_equation(wanted)) return math_equal(wanted, right_side(said));
  if (is_assignment(wanted) && !is_equation(said)) return math_equal(right_side(wanted), said);
  if (is_assignment(wanted) && is_assignment(said) &&
      (wanted.kind == Kind::chain || said.kind == Kind::chain)) {
    return math_equal(first_relation(wanted).parts[0], first_relation(said).parts[0]) &&
           math_equal(right_side(wanted), right_side(said));
  }
  if (is_relation(wanted) && is_relation(said)) return relations_equal(wanted, said);
  if (is_relation(wanted)) {
    const auto interval = interval_of(wanted);
    return interval && math_equal(*interval, said);
  }
  if (is_relation(said)) return false;
  if (wanted.is_scalar() && said.is_scalar()) return scalars_equal(wanted, said);
  return several_equal(wanted, said);
}

}  // namespace mt
