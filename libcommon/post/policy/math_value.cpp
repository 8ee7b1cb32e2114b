#include "post/policy/math_value.h"

#include <algorithm>
#include <boost/math/constants/constants.hpp>
#include <cstdint>
#include <vector>

namespace mt {
namespace {

using Kind = MathExpression::Kind;
using Integer = boost::multiprecision::cpp_int;

constexpr std::int64_t kMostBits = 1 << 16;  // of a whole number

struct NoValue {};

std::int64_t bits_of(const Rational& x) {
  const Integer above = abs(numerator(x)), below = denominator(x);
  return static_cast<std::int64_t>((above == 0 ? 0 : msb(above)) + msb(below)) + 2;
}

Rational within_limit(Rational x) {
  if (bits_of(x) > kMostBits) throw NoValue();
  return x;
}

Rational decimal(const std::string& digits) {
  const std::size_t point = digits.find('.');
  if (point == std::string::npos) return within_limit(Rational(Integer(digits)));
  const std::size_t decimals = digits.size() - point - 1;
  if (digits.size() > 10'000) throw NoValue();
  std::string whole = digits.substr(0, point) + digits.substr(point + 1);
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size() - 1));  // 0… would be octal
  return Rational(Integer(whole), pow(Integer(10), static_cast<unsigned>(decimals)));
}

Rational raised(const Rational& base, const Rational& exponent) {
  if (denominator(exponent) != 1 || abs(exponent) > kMostBits) throw NoValue();
  const auto times = static_cast<std::int64_t>(numerator(exponent));
  if (base == 0 && times <= 0) throw NoValue();
  const auto count = static_cast<unsigned>(times < 0 ? -times : times);
  if (bits_of(base) * static_cast<std::int64_t>(count) > kMostBits) throw NoValue();
  const Rational made(pow(numerator(base), count), pow(denominator(base), count));
  return times < 0 ? 1 / made : made;
}

std::int64_t small_whole(const Rational& x) {
  if (denominator(x) != 1 || x < 0 || x > 3000) throw NoValue();
  return static_cast<std::int64_t>(numerator(x));
}

Integer factorial(std::int64_t n) {
  Integer made = 1;
  for (std::int64_t i = 2; i <= n; ++i) made *= i;
  return made;
}

Integer floor_of(const Rational& x) {
  Integer whole = numerator(x) / denominator(x);
  if (x < 0 && whole * denominator(x) != numerator(x)) whole -= 1;
  return whole;
}

Rational exact(const MathExpression& term);

// The determinant of rows of numbers, by the first row.
Rational determinant(const std::vector<std::vector<Rational>>& rows) {
  if (rows.size() == 1) return rows[0][0];
  Rational sum = 0;
  for (std::size_t column = 0; column < rows.size(); ++column) {
    std::vector<std::vector<Rational>> rest;
    for (std::size_t i = 1; i < rows.size(); ++i) {
      rest.push_back(rows[i]);
      rest.back().erase(rest.back().begin() + static_cast<std::ptrdiff_t>(column));
    }
    sum += (column % 2 == 0 ? 1 : -1) * rows[0][column] * determinant(rest);
  }
  return within_limit(sum);
}

Rational exact_function(const MathExpression& term) {
  const std::string& name = term.word;
  if (name == "det") {
    const std::vector<MathExpression>& rows = term.parts.at(0).parts;
    std::vector<std::vector<Rational>> values;
    if (rows.size() > 5) throw NoValue();
    for (const MathExpression& row : rows) {
      if (row.parts.size() != rows.size()) throw NoValue();
      values.emplace_back();
      for (const MathExpression& cell : row.parts) values.back().push_back(exact(cell));
    }
    return determinant(values);
  }
  std::vector<Rational> of;
  for (const MathExpression& part : term.parts) of.push_back(exact(part));
  if (name == "factorial") return Rational(factorial(small_whole(of[0])));
  if (name == "binom") {
    const std::int64_t n = small_whole(of[0]), k = small_whole(of[1]);
    return k > n ? Rational(0) : Rational(factorial(n) / (factorial(k) * factorial(n - k)));
  }
  if (name == "abs") return abs(of[0]);
  if (name == "floor") return Rational(floor_of(of[0]));
  if (name == "ceil") return Rational(-floor_of(-of[0]));
  if (name == "max" || name == "min") {
    Rational made = of.at(0);
    for (const Rational& x : of)
      if (name == "max" ? x > made : x < made) made = x;
    return made;
  }
  if (name == "gcd" || name == "lcm") {
    Integer made = numerator(of.at(0));
    for (const Rational& x : of) {
      if (denominator(x) != 1) throw NoValue();
      made = name == "gcd" ? gcd(made, numerator(x)) : lcm(made, numerator(x));
    }
    return within_limit(Rational(made));
  }
  throw NoValue();
}

Rational exact(const MathExpression& term) {
  switch (term.kind) {
    case Kind::number:
      return term.word.starts_with('-') ? -decimal(term.word.substr(1)) : decimal(term.word);
    case Kind::sum: {
      Rational sum = 0;
      for (const MathExpression& part : term.parts) sum = within_limit(sum + exact(part));
      return sum;
    }
    case Kind::product: {
      Rational product = 1;
      for (const MathExpression& part : term.parts) product = within_limit(product * exact(part));
      return product;
    }
    case Kind::quotient: {
      const Rational above = exact(term.parts[0]), below = exact(term.parts[1]);
      if (below == 0) throw NoValue();
      return within_limit(above / below);
    }
    case Kind::power:
      return raised(exact(term.parts[0]), exact(term.parts[1]));
    case Kind::percent:
      return exact(term.parts[0]) / 100;
    case Kind::function:
      return exact_function(term);
    default:
      throw NoValue();
  }
}

const LongFloat& pi() {
  static const LongFloat value = boost::math::constants::pi<LongFloat>();
  return value;
}

bool is_real(const LongComplex& x) { return x.im == 0; }

LongFloat real(const LongComplex& x) {
  if (!is_real(x)) throw NoValue();
  return x.re;
}

LongComplex product(const LongComplex& a, const LongComplex& b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

LongComplex quotient(const LongComplex& a, const LongComplex& b) {
  const LongFloat square = b.re * b.re + b.im * b.im;
  if (square == 0) throw NoValue();
  return {(a.re * b.re + a.im * b.im) / square, (a.im * b.re - a.re * b.im) / square};
}

LongComplex power(const LongComplex& base, const LongComplex& exponent) {
  const LongFloat times = real(exponent);
  if (times == round(times) && abs(times) <= 4096) {
    LongComplex made{1, 0};
    for (int i = static_cast<int>(abs(times)); i > 0; --i) made = product(made, base);
    return times < 0 ? quotient({1, 0}, made) : made;
  }
  if (is_real(base) && base.re >= 0) {
    if (base.re == 0 && times <= 0) throw NoValue();
    return {base.re == 0 ? LongFloat(0) : pow(base.re, times), 0};
  }
  // r (cos t + i sin t), by the principal branch.
  const LongFloat r = pow(LongFloat(sqrt(base.re * base.re + base.im * base.im)), times);
  const LongFloat t = (is_real(base) ? pi() : LongFloat(atan2(base.im, base.re))) * times;
  if (is_real(base) && times * 2 == round(LongFloat(times * 2)))  // a root of a negative number
    return {0, r * (static_cast<int>(round(LongFloat(times - LongFloat(0.5)))) % 2 == 0 ? 1 : -1)};
  return {r * cos(t), r * sin(t)};
}

LongFloat positive(const LongFloat& x) {
  if (x <= 0) throw NoValue();
  return x;
}
LongFloat within_one(const LongFloat& x) {
  if (abs(x) > 1) throw NoValue();
  return x;
}
LongFloat inverse(const LongFloat& x) {
  if (abs(x) < LongFloat("1e-50")) throw NoValue();
  return 1 / x;
}

LongFloat real_function(const std::string& name, const std::vector<LongFloat>& of) {
  const LongFloat& x = of.at(0);
  if (name == "abs") return abs(x);
  if (name == "sin") return sin(x);
  if (name == "cos") return cos(x);
  if (name == "tan") return sin(x) * inverse(cos(x));
  if (name == "cot") return cos(x) * inverse(sin(x));
  if (name == "sec") return inverse(cos(x));
  if (name == "csc") return inverse(sin(x));
  if (name == "arcsin") return asin(within_one(x));
  if (name == "arccos") return acos(within_one(x));
  if (name == "arctan") return atan(x);
  if (name == "sinh") return sinh(x);
  if (name == "cosh") return cosh(x);
  if (name == "tanh") return tanh(x);
  if (name == "exp") return exp(x);
  if (name == "ln") return log(positive(x));
  if (name == "log") return log(positive(x)) * inverse(log(positive(of.at(1))));
  if (name == "floor") return floor(x);
  if (name == "ceil") return ceil(x);
  throw NoValue();
}

LongComplex evaluate(const MathExpression& term,
                     const std::function<LongFloat(const std::string&)>& letter) {
  const auto part = [&](std::size_t i) { return evaluate(term.parts.at(i), letter); };
  switch (term.kind) {
    case Kind::number:
      return {LongFloat(term.word), 0};
    case Kind::symbol:
      if (term.word == "pi") return {pi(), 0};
      if (term.word == "e") return {exp(LongFloat(1)), 0};
      if (term.word == "i") return {0, 1};
      if (term.word == "infinity") throw NoValue();
      return {letter(term.word), 0};
    case Kind::sum: {
      LongComplex sum;
      for (std::size_t i = 0; i < term.parts.size(); ++i) {
        const LongComplex x = part(i);
        sum = {sum.re + x.re, sum.im + x.im};
      }
      return sum;
    }
    case Kind::product: {
      LongComplex made{1, 0};
      for (std::size_t i = 0; i < term.parts.size(); ++i) made = product(made, part(i));
      return made;
    }
    case Kind::quotient:
      return quotient(part(0), part(1));
    case Kind::power:
      return power(part(0), part(1));
    case Kind::percent:
      return quotient(part(0), {100, 0});
    case Kind::function: {
      if (const auto value = rational_value(term)) return {LongFloat(*value), 0};
      std::vector<LongFloat> of;
      for (std::size_t i = 0; i < term.parts.size(); ++i) {
        const LongComplex x = part(i);
        if (term.word == "abs") return {sqrt(x.re * x.re + x.im * x.im), 0};
        of.push_back(real(x));
      }
      return {real_function(term.word, of), 0};
    }
    default:
      throw NoValue();
  }
}

}  // namespace

std::optional<Rational> rational_value(const MathExpression& term) {
  try {
    return exact(term);
  } catch (const NoValue&) {
    return std::nullopt;
  }
}

std::optional<LongComplex> complex_value(
    const MathExpression& term, const std::function<LongFloat(const std::string&)>& letter) {
  try {
    const LongComplex value = evaluate(term, letter);
    if (!isfinite(value.re) || !isfinite(value.im)) return std::nullopt;
    return value;
  } catch (const NoValue&) {
    return std::nullopt;
  }
}

}  // namespace mt
