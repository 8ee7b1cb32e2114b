#include "post/policy/math_tokens.h"

#include <algorithm>
#include <utility>

namespace mt {
namespace {

using Kind = MathToken::Kind;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string small(std::string_view word) {
  std::string made(word);
  for (char& c : made)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return made;
}

// What is written otherwise, and the sign that it is here; "" is passed over.
struct Other {
  std::string_view written, sign;
};
constexpr Other kCommands[] = {
    {"left", ""},           {"right", ""},      {"big", ""},          {"Big", ""},
    {"bigl", ""},           {"bigr", ""},       {"Bigl", ""},         {"Bigr", ""},
    {"bigg", ""},           {"Bigg", ""},       {"displaystyle", ""}, {"textstyle", ""},
    {"limits", ""},         {"quad", ""},       {"qquad", ""},        {"boxed", ""},
    {"degree", ""},         {"mathop", ""},     {"frac", "frac"},     {"dfrac", "frac"},
    {"tfrac", "frac"},      {"cfrac", "frac"},  {"binom", "binom"},   {"dbinom", "binom"},
    {"tbinom", "binom"},    {"cdot", "*"},      {"times", "*"},       {"ast", "*"},
    {"div", "/"},           {"pm", "pm"},       {"mp", "mp"},         {"le", "<="},
    {"leq", "<="},          {"leqslant", "<="}, {"ge", ">="},         {"geq", ">="},
    {"geqslant", ">="},     {"lt", "<"},        {"gt", ">"},          {"ne", "!="},
    {"neq", "!="},          {"approx", "="},    {"equiv", "="},       {"in", "in"},
    {"cup", "cup"},         {"lbrace", "set"},  {"rbrace", "endset"}, {"lfloor", "floor"},
    {"rfloor", "endfloor"}, {"lceil", "ceil"},  {"rceil", "endceil"}, {"lvert", "|"},
    {"rvert", "|"},         {"vert", "|"},      {"mid", "|"},         {"lbrack", "["},
    {"rbrack", "]"}};
constexpr Other kCharacters[] = {
    {"−", "-"},  {"–", "-"}, {"×", "*"},   {"·", "*"},   {"÷", "/"},   {"≤", "<="},  {"≥", ">="},
    {"≠", "!="}, {"≈", "="}, {"∈", "in"},  {"∪", "cup"}, {"±", "pm"},  {"∓", "mp"},  {"°", ""},
    {"$", ""},   {"€", ""},  {"£", ""},    {"¥", ""},    {"<=", "<="}, {">=", ">="}, {"~", ""},
    {"{}", ""},  {"+", "+"}, {"-", "-"},   {"*", "*"},   {"/", "/"},   {":", "/"},   {"^", "^"},
    {"_", "_"},  {"!", "!"}, {"%", "%"},   {"(", "("},   {")", ")"},   {"[", "["},   {"]", "]"},
    {"{", "{"},  {"}", "}"}, {"|", "|"},   {",", ","},   {";", ";"},   {"=", "="},   {"<", "<"},
    {">", ">"},  {"&", "&"}, {"√", "sqrt"}};
// Behind a backslash.
constexpr Other kEscaped[] = {{"\\", "newline"}, {"%", "%"}, {"{", "set"}, {"}", "endset"},
                              {"$", ""},         {",", ""},  {";", ""},    {":", ""},
                              {"!", ""},         {" ", ""},  {"|", "|"}};

constexpr std::string_view kTexts[] = {"text",   "textbf", "textit", "textrm",       "textnormal",
                                       "mathrm", "mathbf", "mathit", "operatorname", "mbox"};
constexpr std::string_view kGreek[] = {
    "alpha", "beta",   "gamma",  "delta", "epsilon", "varepsilon", "zeta", "eta",   "theta",
    "iota",  "kappa",  "lambda", "mu",    "nu",      "xi",         "rho",  "sigma", "tau",
    "phi",   "varphi", "chi",    "psi",   "omega",   "ell",        "pi"};
constexpr std::string_view kNames[] = {
    "sin",  "cos", "tan", "cot", "sec", "csc",  "arcsin", "arccos", "arctan", "sinh", "cosh",
    "tanh", "ln",  "log", "lg",  "exp", "sqrt", "det",    "max",    "min",    "gcd",  "lcm"};
constexpr std::string_view kUnits[] = {
    "km",     "cm",     "mm",     "kg",      "mg",     "gm",    "ft",         "feet",   "foot",
    "inch",   "inche",  "yard",   "mile",    "mph",    "kmph",  "kmh",        "acre",   "hectare",
    "lb",     "pound",  "ounce",  "oz",      "ml",     "liter", "litre",      "gallon", "sec",
    "second", "min",    "minute", "hr",      "hour",   "day",   "week",       "month",  "year",
    "dollar", "cent",   "rupee",  "degree",  "deg",    "unit",  "squareunit", "rad",    "radian",
    "meter",  "metre",  "gram",   "student", "people", "apple", "coin",       "way",    "point",
    "digit",  "number", "hertz",  "hz",      "joule",  "watt",  "volt",       "ohm",    "m",
    "g",      "s",      "h",      "l"};

template <class Words>
bool is_among(const Words& words, std::string_view word) {
  return std::ranges::find(words, word) != std::end(words);
}

class MathTokens {
 public:
  explicit MathTokens(std::string_view formula) : text_(formula) {
    while (!text_.empty() && (is_space(text_.back()) || text_.back() == '.' || text_.back() == ','))
      text_.remove_suffix(1);
  }

  std::vector<MathToken> all() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (is_space(c)) {
        ++at_;
      } else if (is_digit(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))) {
        number();
      } else if (is_letter(c)) {
        letters();
      } else if (c == '\\') {
        ++at_;
        command();
      } else if (!take(kCharacters)) {
        take_symbol() || take_degrees() || unknown();
      }
    }
    return std::move(tokens_);
  }

 private:
  static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

  void add(Kind kind, std::string word) { tokens_.push_back({kind, std::move(word)}); }
  void sign(std::string_view word) {
    if (word == "(" || word == "[" || word == "set") ++depth_;
    if (word == ")" || word == "]" || word == "endset") --depth_;
    if (!word.empty()) add(Kind::sign, std::string(word));
  }
  bool unknown() {
    add(Kind::sign, "?");
    ++at_;
    return true;
  }

  template <std::size_t N>
  bool take(const Other (&others)[N]) {
    if (take_degrees()) return true;
    for (const Other& other : others)
      if (text_.substr(at_).starts_with(other.written)) {
        at_ += other.written.size();
        sign(other.sign);
        return true;
      }
    return false;
  }

  bool take_symbol() {
    constexpr Other kSymbols[] = {{"π", "pi"}, {"∞", "infinity"}, {"θ", "theta"}};
    for (const Other& other : kSymbols)
      if (text_.substr(at_).starts_with(other.written)) {
        at_ += other.written.size();
        add(Kind::symbol, std::string(other.sign));
        return true;
      }
    constexpr Other kPowers[] = {{"²", "2"}, {"³", "3"}};
    for (const Other& other : kPowers)
      if (text_.substr(at_).starts_with(other.written)) {
        at_ += other.written.size();
        sign("^");
        add(Kind::number, std::string(other.sign));
        return true;
      }
    return false;
  }

  bool take_degrees() {
    for (const std::string_view written :
         {"^\\circ", "^{\\circ}", "^ \\circ", "^{ \\circ }", "\\circ"})
      if (text_.substr(at_).starts_with(written)) {
        at_ += written.size();
        return true;
      }
    return false;
  }

  std::string digits() {
    const std::size_t first = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return std::string(text_.substr(first, at_ - first));
  }

  // Digits, with commas between thousands where no bracket is open, and decimals.
  void number() {
    std::string made = digits();
    while (!made.empty() && (made.size() <= 3 || is_grouped_)) {
      const std::string_view rest = text_.substr(at_);
      const std::size_t comma = rest.starts_with("{,}") || rest.starts_with(",\\!") ? 3
                                : rest.starts_with(",") && depth_ == 0              ? 1
                                                                                    : 0;
      const auto has_digit = [&](std::size_t i) {
        return comma + i < rest.size() && is_digit(rest[comma + i]);
      };
      if (comma == 0 || !has_digit(0) || !has_digit(1) || !has_digit(2) || has_digit(3)) break;
      is_grouped_ = true;
      at_ += comma;
      made += digits();
    }
    is_grouped_ = false;
    if (at_ + 1 < text_.size() && text_[at_] == '.' && is_digit(text_[at_ + 1])) {
      ++at_;
      made = (made.empty() ? "0" : made) + "." + digits();
    }
    add(Kind::number, std::move(made));
  }

  void letters() {
    const std::size_t first = at_;
    while (at_ < text_.size() && is_letter(text_[at_])) ++at_;
    const std::string word = small(text_.substr(first, at_ - first));
    if (word == "and" || word == "or") {
      comma();
    } else if (word == "infinity" || word == "inf") {
      add(Kind::symbol, "infinity");
    } else if (word == "percent" || word == "percentage" || word == "pct") {
      sign("%");
    } else if (word.size() > 1 && is_among(kNames, word)) {
      sign(word);
    } else {
      for (const char c : word) add(Kind::letter, std::string(1, c));
    }
  }

  // One comma, also where ", and" is written.
  void comma() {
    if (tokens_.empty() || tokens_.back().word != ",") sign(",");
  }

  void command() {
    const std::size_t first = at_;
    while (at_ < text_.size() && is_letter(text_[at_])) ++at_;
    const std::string_view name = text_.substr(first, at_ - first);
    if (name.empty()) {
      if (!take(kEscaped)) unknown();
      return;
    }
    for (const Other& other : kCommands)
      if (name == other.written) return sign(other.sign);
    if (is_among(kTexts, name)) return text(braces());
    if (name == "infty") return add(Kind::symbol, "infinity");
    if (name == "emptyset" || name == "varnothing") {
      sign("set");
      return sign("endset");
    }
    if (name == "circ") return;
    if (name == "mathbb" || name == "Bbb") return add(Kind::symbol, "set of " + small(braces()));
    if (name == "begin" || name == "end") return matrix(name == "begin");
    const std::string word = small(name);
    if (is_among(kGreek, word)) return add(Kind::symbol, word);
    if (is_among(kNames, name)) return sign(name);
    add(Kind::sign, "?");
  }

  // What stands in braces, or the next character.
  std::string_view braces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    if (at_ == text_.size()) return {};
    if (text_[at_] != '{') return text_.substr(at_++, 1);
    const std::size_t first = ++at_;
    for (int open = 1; at_ < text_.size(); ++at_) {
      open += text_[at_] == '{' ? 1 : text_[at_] == '}' ? -1 : 0;
      if (open == 0) return text_.substr(first, at_++ - first);
    }
    return text_.substr(first);
  }

  void text(std::string_view content) {
    std::string word = small(content);
    std::erase_if(word, [](char c) { return is_space(c) || c == '\\'; });
    if (word == "and" || word == "or" || word == ",and" || word == ",or") return comma();
    if (word == "percent" || word == "percentage" || word == "pct" || word == "%") return sign("%");
    if (word.starts_with('(') && word.ends_with(')')) word = word.substr(1, word.size() - 2);
    if (word.empty()) return;
    if (word == "e" || word == "i") return add(Kind::letter, word);
    if (is_among(kNames, word)) return sign(word);
    add(Kind::text, word);
  }

  void matrix(bool begins) {
    const std::string_view name = braces();
    if (!name.ends_with("matrix") && name != "array") return sign("?");
    if (begins && name == "array") braces();  // its columns
    sign(!begins ? "endmatrix" : name == "vmatrix" ? "determinant" : "matrix");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool is_grouped_ = false;
  std::vector<MathToken> tokens_;
};

}  // namespace

std::vector<MathToken> math_tokens(std::string_view formula) { return MathTokens(formula).all(); }

bool is_function_name(std::string_view word) { return is_among(kNames, word); }

bool is_unit(std::string_view word) {
  return is_among(kUnits, word) ||
         (word.ends_with('s') && is_among(kUnits, word.substr(0, word.size() - 1)));
}

}  // namespace mt
