#include "post/policy/math_expression.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "post/policy/math_tokens.h"

namespace mt {
namespace {

using Kind = MathExpression::Kind;

struct NoFormula {};
constexpr std::size_t kMostTokens = 500, kMostElements = 64;
constexpr int kMostDepth = 60;  // of brackets and groups

MathExpression number(std::string digits) {
  return {.kind = Kind::number, .word = std::move(digits)};
}
MathExpression symbol(std::string name) { return {.kind = Kind::symbol, .word = std::move(name)}; }
MathExpression of(Kind kind, std::vector<MathExpression> parts, std::string word = "") {
  return {.kind = kind, .word = std::move(word), .parts = std::move(parts)};
}
MathExpression negative(MathExpression x) {
  return of(Kind::product, {number("-1"), std::move(x)});
}

// Reads tokens from the left; \pm is read as + or as -.
class MathParser {
 public:
  MathParser(std::vector<MathToken> tokens, bool minus)
      : tokens_(std::move(tokens)), minus_(minus) {}

  MathExpression whole() {
    std::vector<MathExpression> elements = list();
    if (at_ < tokens_.size() || elements.empty()) throw NoFormula();
    return elements.size() == 1 ? std::move(elements[0]) : of(Kind::set, std::move(elements));
  }
  bool has_both_signs() const { return has_both_signs_; }

 private:
  const MathToken& next() const {
    static const MathToken end{};
    return at_ < tokens_.size() ? tokens_[at_] : end;
  }
  bool is(std::string_view word) const { return next().is_sign() && next().word == word; }
  bool take(std::string_view word) {
    const bool found = is(word);
    at_ += found ? 1 : 0;
    return found;
  }
  void expect(std::string_view word) {
    if (!take(word)) throw NoFormula();
  }

  std::vector<MathExpression> list() {
    std::vector<MathExpression> elements;
    do {
      if (at_ == tokens_.size()) break;  // a comma at the end
      elements.push_back(relation());
      if (elements.size() > kMostElements) throw NoFormula();
    } while (take(",") || take(";"));
    return elements;
  }

  MathExpression relation() {
    static constexpr std::array<std::string_view, 7> kRelations = {
        "=", "<", ">", "<=", ">=", "!=", "in"};
    std::vector<MathExpression> all;
    MathExpression left = united();
    while (next().is_sign() && std::ranges::find(kRelations, next().word) != kRelations.end()) {
      const std::string word = tokens_[at_++].word;
      MathExpression right = united();
      all.push_back(of(Kind::relation, {left, right}, word));
      left = std::move(right);
    }
    if (all.empty()) return left;
    return all.size() == 1 ? std::move(all[0]) : of(Kind::chain, std::move(all));
  }

  MathExpression united() {
    std::vector<MathExpression> parts = {sum()};
    while (take("cup")) parts.push_back(sum());
    return parts.size() == 1 ? std::move(parts[0]) : of(Kind::unite, std::move(parts));
  }

  // Whether a sign follows, and which: -1 for minus.
  std::optional<bool> sign() {
    if (take("+")) return false;
    if (take("-")) return true;
    const bool is_upper = is("pm"), is_lower = is("mp");
    if (!is_upper && !is_lower) return std::nullopt;
    ++at_;
    has_both_signs_ = true;
    return is_lower != minus_;
  }

  MathExpression sum() {
    std::vector<MathExpression> parts;
    std::optional<bool> minus = sign();
    do {
      MathExpression part = product();
      parts.push_back(minus.value_or(false) ? negative(std::move(part)) : std::move(part));
      minus = sign();
    } while (minus);
    return parts.size() == 1 ? std::move(parts[0]) : of(Kind::sum, std::move(parts));
  }

  MathExpression product() {
    MathExpression left = side_by_side();
    while (true) {
      if (take("*")) {
        left = of(Kind::product, {std::move(left), signed_factor()});
      } else if (take("/")) {
        left = of(Kind::quotient, {std::move(left), signed_factor()});
      } else {
        return left;
      }
    }
  }

  MathExpression signed_factor() {
    if (const auto minus = sign()) {
      MathExpression factor = signed_factor();
      return *minus ? negative(std::move(factor)) : factor;
    }
    return side_by_side();
  }

  // Factors without a sign between them; units behind them are passed over.
  MathExpression side_by_side() {
    std::vector<MathExpression> parts = {power()};
    while (true) {
      if (skip_unit()) continue;
      if (!begins_factor()) break;
      const bool may_be_mixed = parts.size() == 1 && parts[0].kind == Kind::number && is("frac") &&
                                parts[0].word.find('.') == std::string::npos;
      MathExpression part = power();
      if (may_be_mixed && part.kind == Kind::quotient && part.parts[0].kind == Kind::number &&
          part.parts[1].kind == Kind::number) {
        parts[0] = of(Kind::sum, {std::move(parts[0]), std::move(part)});
      } else {
        parts.push_back(std::move(part));
      }
    }
    return parts.size() == 1 ? std::move(parts[0]) : of(Kind::product, std::move(parts));
  }

  bool begins_factor() const {
    const MathToken& token = next();
    switch (token.kind) {
      case MathToken::Kind::number:
      case MathToken::Kind::letter:
      case MathToken::Kind::symbol:
        return true;
      case MathToken::Kind::text:
      case MathToken::Kind::end:
        return false;
      case MathToken::Kind::sign:
        break;
    }
    return token.word == "(" || token.word == "[" || token.word == "{" || token.word == "frac" ||
           token.word == "binom" || token.word == "floor" || token.word == "ceil" ||
           (token.word == "|" && bars_ == 0) || is_function_name(token.word);
  }

  // A unit: \text{…} behind something, or letters up to the end of the formula that are one, but
  // behind no letter.
  bool skip_unit() {
    std::size_t end = at_;
    if (next().kind == MathToken::Kind::text) {
      end = at_ + 1;
    } else if (at_ > 0 && tokens_[at_ - 1].kind != MathToken::Kind::letter) {
      std::string word;
      while (end < tokens_.size() && tokens_[end].kind == MathToken::Kind::letter)
        word += tokens_[end++].word;
      const bool is_last =
          end == tokens_.size() || tokens_[end].word == "," || tokens_[end].word == "^";
      if (word.empty() || !is_last || !is_unit(word)) return false;
    } else {
      return false;
    }
    at_ = end;
    if (is("^") && at_ + 1 < tokens_.size()) {  // squares and cubes of units
      ++at_;
      primary();
    }
    if (is("/") && at_ + 1 < tokens_.size() && tokens_[at_ + 1].kind == MathToken::Kind::text)
      at_ += 2;
    return true;
  }

  MathExpression power() {
    MathExpression base = postfix();
    while (take("^")) base = of(Kind::power, {std::move(base), exponent()});
    return base;
  }
  MathExpression exponent() {
    if (take("-")) return negative(primary());
    return primary();
  }

  MathExpression postfix() {
    MathExpression x = primary();
    while (true) {
      if (take("!")) {
        x = of(Kind::function, {std::move(x)}, "factorial");
      } else if (take("%")) {
        x = of(Kind::percent, {std::move(x)});
      } else if (is("_")) {
        ++at_;
        const MathExpression index = primary();
        if (x.kind == Kind::symbol)
          x.word += "_" + index.word;  // of a number: its base, passed over
      } else {
        return x;
      }
    }
  }

  MathExpression group() {  // {…}
    MathExpression x = relation();
    expect("}");
    return x;
  }
  // What LaTeX takes as an argument: a group, or a digit or letter.
  MathExpression argument() {
    if (take("{")) return group();
    if (next().kind == MathToken::Kind::number && next().word.size() > 1) {
      std::string& digits = tokens_[at_].word;
      MathExpression digit = number(digits.substr(0, 1));
      digits.erase(0, 1);
      return digit;
    }
    return primary();
  }

  MathExpression primary() {
    if (++depth_ > kMostDepth) throw NoFormula();
    MathExpression x = primary_at_depth();
    --depth_;
    return x;
  }

  MathExpression primary_at_depth() {
    const MathToken token = next();
    ++at_;
    switch (token.kind) {
      case MathToken::Kind::number:
        return number(token.word);
      case MathToken::Kind::letter:
      case MathToken::Kind::symbol:
      case MathToken::Kind::text:
        return symbol(token.word);
      case MathToken::Kind::end:
        throw NoFormula();
      case MathToken::Kind::sign:
        break;
    }
    if (token.word == "{") return group();
    if (token.word == "(" || token.word == "[") return brackets(token.word == "(");
    if (token.word == "set") {
      std::vector<MathExpression> elements;
      if (!is("endset")) elements = list();
      expect("endset");
      return of(Kind::set, std::move(elements));
    }
    if (token.word == "|") {
      ++bars_;
      MathExpression x = sum();
      --bars_;
      expect("|");
      return of(Kind::function, {std::move(x)}, "abs");
    }
    if (token.word == "floor" || token.word == "ceil") {
      MathExpression x = sum();
      expect(token.word == "floor" ? "endfloor" : "endceil");
      return of(Kind::function, {std::move(x)}, token.word);
    }
    if (token.word == "frac") {
      MathExpression above = argument(), below = argument();
      return of(Kind::quotient, {std::move(above), std::move(below)});
    }
    if (token.word == "binom") {
      MathExpression above = argument(), below = argument();
      return of(Kind::function, {std::move(above), std::move(below)}, "binom");
    }
    if (token.word == "matrix" || token.word == "determinant")
      return matrix(token.word == "determinant");
    if (is_function_name(token.word)) return function(token.word);
    throw NoFormula();
  }

  MathExpression brackets(bool left_open) {
    const int bars = std::exchange(bars_, 0);
    std::vector<MathExpression> elements = list();
    bars_ = bars;
    const bool right_open = is(")");
    if (!right_open && !is("]")) throw NoFormula();
    ++at_;
    if (elements.size() == 1 && left_open == right_open) return std::move(elements[0]);
    const bool is_interval =
        elements.size() == 2 && elements[0].is_scalar() && elements[1].is_scalar();
    if (!is_interval && left_open != right_open) throw NoFormula();
    MathExpression made = of(is_interval ? Kind::interval : Kind::tuple, std::move(elements));
    made.left_open = left_open;
    made.right_open = right_open;
    return made;
  }

  MathExpression matrix(bool is_determinant) {
    std::vector<MathExpression> rows(1, of(Kind::tuple, {}));
    while (!take("endmatrix")) {
      if (take("&")) continue;
      if (take("newline")) {
        if (!is("endmatrix")) rows.push_back(of(Kind::tuple, {}));
        continue;
      }
      rows.back().parts.push_back(sum());
      if (!is("&") && !is("newline") && !is("endmatrix")) throw NoFormula();
    }
    for (const MathExpression& row : rows)
      if (row.parts.size() != rows[0].parts.size() || row.parts.empty()) throw NoFormula();
    MathExpression made = of(Kind::matrix, std::move(rows));
    return is_determinant ? of(Kind::function, {std::move(made)}, "det") : made;
  }

  MathExpression function(std::string name) {
    if (name == "sqrt") {
      MathExpression root = number("2");
      if (take("[")) {
        root = sum();
        expect("]");
      }
      return of(Kind::power, {argument(), of(Kind::quotient, {number("1"), std::move(root)})});
    }
    std::optional<MathExpression> base, raised;
    while (is("_") || is("^")) {
      const bool is_base = is("_");
      ++at_;
      (is_base ? base : raised) = is_base ? primary() : exponent();
    }
    if (raised && raised->kind == Kind::product && raised->parts[0].word == "-1" &&
        raised->parts[1].word == "1" && name.size() == 3) {
      name = "arc" + name;
      raised.reset();
    }
    std::vector<MathExpression> arguments = arguments_of_function();
    if (name == "log" || name == "lg") {
      arguments.push_back(base ? std::move(*base) : number("10"));
      name = "log";
    } else if (base) {
      throw NoFormula();
    }
    MathExpression made = of(Kind::function, std::move(arguments), std::move(name));
    return raised ? of(Kind::power, {std::move(made), std::move(*raised)}) : made;
  }

  // In brackets, or what stands side by side up to the next sign or function.
  std::vector<MathExpression> arguments_of_function() {
    if (take("(")) {
      std::vector<MathExpression> all = list();
      expect(")");
      return all;
    }
    std::vector<MathExpression> parts = {power()};
    while (begins_factor() && !is_function_name(next().word) && !is("(")) parts.push_back(power());
    return {parts.size() == 1 ? std::move(parts[0]) : of(Kind::product, std::move(parts))};
  }

  std::vector<MathToken> tokens_;
  std::size_t at_ = 0;
  int bars_ = 0;  // that are open
  int depth_ = 0;
  bool minus_, has_both_signs_ = false;
};

}  // namespace

std::optional<MathExpression> parse_math(std::string_view formula) {
  try {
    const std::vector<MathToken> tokens = math_tokens(formula);
    if (tokens.size() > kMostTokens) return std::nullopt;
    MathParser plus(tokens, false);
    MathExpression made = plus.whole();
    if (!plus.has_both_signs()) return made;
    return of(Kind::set, {std::move(made), MathParser(tokens, true).whole()});
  } catch (const NoFormula&) {
    return std::nullopt;
  }
}

}  // namespace mt
