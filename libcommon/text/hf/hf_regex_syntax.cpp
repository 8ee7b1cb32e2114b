#include "text/hf/hf_regex_syntax.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>

#include "base/json_object.h"
#include "base/utf8.h"
#include "text/unicode/code_points.h"
#include "text/unicode/unicode.h"

namespace mt {
namespace {

std::string written(char32_t point) {
  char digits[8];
  const auto end = std::to_chars(digits, digits + sizeof digits, std::uint32_t{point}, 16).ptr;
  return concat("\\x{", std::string_view(digits, end), "}");
}

// A class of these code points; surrogates are in no text.
std::string written(const CodePoints& set) {
  std::string ranges;
  for (auto [first, last] : set.ranges()) {
    if (first >= 0xD800 && first < 0xE000) first = 0xE000;
    if (last >= 0xD800 && last < 0xE000) last = 0xD7FF;
    if (first <= last) ranges += concat(written(first), "-", written(last));
  }
  return ranges.empty() ? "(?!)" : concat("[", ranges, "]");
}

CodePoints points_of(Category wanted) {
  static const auto kSets = [] {
    std::array<CodePoints, kCategories> sets;
    for (int i = 0; i < kCategories; ++i)
      sets[i] = CodePoints::of([=](char32_t p) { return category(p) == static_cast<Category>(i); });
    return sets;
  }();
  return kSets[static_cast<std::size_t>(wanted)];
}

// General categories, as a set of bits in the order of kNames; those of P and of S only together.
class Properties {
 public:
  bool add(std::string_view name) {
    bool known = false;
    for (std::size_t i = 0; i < std::size(kNames); ++i)
      if (kNames[i].name == name || kNames[i].name.substr(0, 1) == name) {
        bits_ |= 1u << i;
        known = true;
      }
    return known;
  }

  // The code points of all classes that were added; nothing where text/unicode/unicode.h does not
  // tell them from others.
  std::optional<CodePoints> code_points() const {
    std::uint32_t categories = 0, others = 0;
    for (std::size_t i = 0; i < std::size(kNames); ++i)
      ((bits_ >> i & 1) != 0 ? categories : others) |= 1u << static_cast<int>(kNames[i].category);
    if ((categories & others) != 0) return std::nullopt;
    const auto bit = [](Category c) { return 1u << static_cast<int>(c); };
    if ((categories & bit(Category::symbol)) != 0) categories |= bit(Category::letter_symbol);
    CodePoints set;
    for (int i = 0; i < kCategories; ++i)
      if ((categories >> i & 1) != 0) set.add(points_of(static_cast<Category>(i)));
    return set;
  }

 private:
  struct Name {
    std::string_view name;
    Category category;
  };
  static constexpr Name kNames[] = {
      {"Lu", Category::upper},         {"Lt", Category::upper},        {"Ll", Category::lower},
      {"Lm", Category::letter},        {"Lo", Category::letter},       {"Mn", Category::mark},
      {"Mc", Category::spacing_mark},  {"Me", Category::spacing_mark}, {"Nd", Category::digit},
      {"Nl", Category::letter_number}, {"No", Category::number},       {"Pc", Category::connector},
      {"P-", Category::punctuation},   {"S-", Category::symbol}};
  std::uint32_t bits_ = 0;
};

class Rewriter {
 public:
  Rewriter(std::string_view text, const JsonObject& where) : text_(text), where_(where) {}

  std::string rewrite() {
    while (at_ < text_.size()) item();
    if (depth_ != 0) refuse("a group without its end");
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const auto&... parts) const {
    where_.refuse("the regular expression ", json_quoted(text_), ": ", parts..., " at byte ", at_,
                  " is not supported");
  }

  bool take(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  void item() {
    if (out_.size() > kMostBytes) refuse("more than a megabyte once written out");
    for (const std::string_view open : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"})
      if (take(open)) return begin_group(open);
    if (take("(?i:")) return letters_in_any_case();
    if (text_.substr(at_).starts_with("(?"))
      refuse("the group ", json_quoted(text_.substr(at_, 4)));
    if (take("(")) return begin_group("(");
    if (take(")")) {
      if (depth_-- == 0) refuse("a group's end without its start");
      out_ += ')';
      return quantifier();
    }
    if (take("|")) {
      out_ += '|';
      return;
    }
    for (const char anchor : {'^', '$'})
      if (take({&anchor, 1})) {
        out_ += anchor;
        return;
      }
    if (take("."))
      out_ += '.';
    else if (take("["))
      out_ += written(bracket());
    else if (take("\\"))
      escape();
    else if (std::string_view("*+?{").find(text_[at_]) != std::string_view::npos)
      refuse("the quantifier ", json_quoted(text_.substr(at_, 1)), ", of nothing,");
    else
      out_ += written(next_code_point(text_, at_));
    quantifier();
  }

  void begin_group(std::string_view open) {
    ++depth_;
    out_ += open;
  }

  // (?i:...) of ASCII letters, in alternatives and sets.  Oniguruma also finds one character for
  // these pairs of letters, which have ligatures.
  void letters_in_any_case() {
    const std::size_t end = text_.find(')', at_);
    const std::string_view inside = text_.substr(at_, end - at_);
    const auto plain = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '\'' || c == '|' ||
             c == '[' || c == ']';
    };
    if (end == text_.npos || !std::ranges::all_of(inside, plain))
      refuse("(?i:...) around more than letters");
    std::string lower(inside);
    for (char& c : lower)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
    for (const char* pair : {"ss", "st", "ff", "fi", "fl"})
      if (lower.find(pair) != lower.npos) refuse("(?i:...) around ", json_quoted(pair));
    out_ += concat("(?i:", inside, ")");
    at_ = end + 1;
    quantifier();
  }

  void quantifier() {
    if (at_ == text_.size()) return;
    const char c = text_[at_];
    if (c == '{') {
      counted();
    } else if (c == '*' || c == '+' || c == '?') {
      out_ += c;
      ++at_;
      for (const char mode : {'+', '?'})
        if (take({&mode, 1})) {
          out_ += mode;
          break;
        }
    } else {
      return;
    }
    if (at_ < text_.size() && std::string_view("*+?{").find(text_[at_]) != std::string_view::npos)
      refuse("a quantifier behind a quantifier");
  }

  // {n}, {n,} or {n,m}
  void counted() {
    const std::size_t end = text_.find('}', at_);
    const std::string_view counts = text_.substr(at_ + 1, end - at_ - 1);
    const std::size_t comma = std::min(counts.find(','), counts.size());
    const auto is_number = [](std::string_view digits) {
      return digits.size() <= 3 && digits.find_first_not_of("0123456789") == digits.npos;
    };
    const std::string_view least = counts.substr(0, comma);
    const std::string_view most = counts.substr(std::min(comma + 1, counts.size()));
    if (end == text_.npos || least.empty() || !is_number(least) || !is_number(most))
      refuse("{ without {n}, {n,} or {n,m}");
    out_ += concat("{", counts, "}");
    at_ = end + 1;
  }

  void escape() {
    if (const auto set = class_escape())
      out_ += written(*set);
    else
      out_ += written(character_escape());
  }

  // \s \d \p{NAME}, \p{^NAME} and their opposites, behind the backslash; nothing for another one.
  std::optional<CodePoints> class_escape() {
    for (const char upper : {'S', 'D', 'P'}) {
      const char lower = static_cast<char>(upper | 0x20);
      const bool negated = take({&upper, 1});
      if (!negated && !take({&lower, 1})) continue;
      if (upper == 'P') return property(negated);
      const CodePoints set = points_of(upper == 'S' ? Category::space : Category::digit);
      return negated ? set.complement() : set;
    }
    return std::nullopt;
  }

  std::string_view property_name(bool& negated) {
    if (!take("{")) refuse("\\p without {NAME}");
    if (take("^")) negated = !negated;
    const std::size_t end = std::min(text_.find('}', at_), text_.size());
    const std::string_view name = text_.substr(at_, end - at_);
    at_ = std::min(end + 1, text_.size());
    return name;
  }

  CodePoints property(bool negated) {
    const std::string_view name = property_name(negated);
    Properties properties;
    if (!properties.add(name)) refuse("\\p{", name, "}");
    const auto set = properties.code_points();
    if (!set) refuse("\\p{", name, "} by itself");
    return negated ? set->complement() : *set;
  }

  char32_t character_escape() {
    if (at_ == text_.size()) refuse("a backslash");
    static constexpr std::pair<char, char32_t> kControls[] = {
        {'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'f', '\f'}, {'v', '\v'}};
    for (const auto& [letter, point] : kControls)
      if (take({&letter, 1})) return point;
    if (take("u")) return hexadecimal(4, text_.substr(at_, 4));
    if (take("x{")) {
      const std::size_t end = std::min(text_.find('}', at_), text_.size());
      const char32_t point = hexadecimal(0, text_.substr(at_, end - at_));
      if (!take("}")) refuse("\\x{ without }");
      return point;
    }
    if (take("x")) return hexadecimal(2, text_.substr(at_, 2));
    const char c = text_[at_];
    const bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (word) refuse("\\", std::string_view(&c, 1));
    return next_code_point(text_, at_);
  }

  // `exactly` so many digits, or if 0 any number of them.
  char32_t hexadecimal(std::size_t exactly, std::string_view digits) {
    std::uint32_t point = 0;
    const char* const end = digits.data() + digits.size();
    const auto [parsed, error] = std::from_chars(digits.data(), end, point, 16);
    if (error != std::errc() || parsed != end || (exactly != 0 && digits.size() != exactly) ||
        point > CodePoints::kLast || (point >= 0xD800 && point < 0xE000))
      refuse("the code point ", json_quoted(digits));
    at_ += digits.size();
    return point;
  }

  // What is behind a [.
  CodePoints bracket() {
    const bool negated = take("^");
    CodePoints set;
    Properties properties;
    bool has_properties = false;
    if (text_.substr(at_).starts_with("]")) refuse("an empty class");
    while (!take("]")) {
      if (at_ == text_.size()) refuse("a class without its end");
      if (text_[at_] == '[' || text_.substr(at_).starts_with("&&")) refuse("a class in a class");
      if (text_.substr(at_).starts_with("\\p{") && text_.substr(at_ + 3, 1) != "^") {
        at_ += 2;
        bool never = false;
        const std::string_view name = property_name(never);
        if (!properties.add(name)) refuse("\\p{", name, "}");
        has_properties = true;
        continue;
      }
      set.add(class_item());
    }
    if (has_properties) {
      const auto named = properties.code_points();
      if (!named) refuse("\\p{...} of half of Lu and Lt, of Lm and Lo, or of Mc and Me");
      set.add(*named);
    }
    return negated ? set.complement() : set;
  }

  // A character, a range of them, or an escape that stands for several.
  CodePoints class_item() {
    const bool escaped = take("\\");
    if (escaped)
      if (const auto set = class_escape()) return *set;
    const char32_t first = escaped ? character_escape() : next_code_point(text_, at_);
    const std::string_view rest = text_.substr(at_);
    if (!rest.starts_with("-") || rest.starts_with("-]")) return {first, first};
    ++at_;
    if (text_.substr(at_).starts_with("[")) refuse("a class in a class");
    const char32_t last = take("\\") ? character_escape() : next_code_point(text_, at_);
    if (last < first) refuse("a range that ends before it begins");
    return {first, last};
  }

  static constexpr std::size_t kMostBytes = 1 << 20;

  std::string_view text_;
  const JsonObject& where_;
  std::size_t at_ = 0;
  int depth_ = 0;  // of groups
  std::string out_;
};

}  // namespace

std::string pcre2_expression(std::string_view expression, const JsonObject& where) {
  return Rewriter(expression, where).rewrite();
}

}  // namespace mt
