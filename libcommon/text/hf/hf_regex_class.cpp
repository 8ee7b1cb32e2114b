#include "text/hf/hf_regex_class.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/json_object.h"
#include "base/utf8.h"
#include "text/hf/hf_properties.h"

namespace mt {

// --- Text. ---

bool HfRegexText::take(std::string_view token) {
  if (!rest().starts_with(token)) return false;
  at_ += token.size();
  return true;
}

char32_t HfRegexText::take_character() {
  if (at_end()) refuse("the end of the expression");
  return next_code_point(text_, at_);
}

std::string_view HfRegexText::take_until(char end, std::string_view what) {
  const std::size_t size = rest().find(end);
  if (size == text_.npos) refuse(what);
  const std::string_view inside = rest().substr(0, size);
  at_ += size + 1;
  return inside;
}

void HfRegexText::refuse(std::string_view what) const {
  where_.refuse("the regular expression ", json_quoted(text_), ": ", what, " at byte ", at_,
                " is not supported");
}

// --- Escapes. ---

CodePoints known_property(std::string_view name) { return *hf_property(name); }

namespace {

bool is_octal(char c) { return c >= '0' && c <= '7'; }

// What is a word's character between [ and ]: not the superscripts and fractions of Latin-1.
CodePoints bracket_word() {
  CodePoints others(0xB2, 0xB3);
  others.add({0xB9, 0xB9});
  others.add({0xBC, 0xBE});
  return known_property("word").intersection(others.complement());
}

bool is_word(std::string_view name) {
  constexpr std::string_view kWord = "word";
  return std::ranges::equal(name, kWord, [](char c, char lower) { return (c | 0x20) == lower; });
}

CodePoints property(HfRegexText& text, bool negated, bool in_bracket) {
  if (text.take("^")) negated = !negated;
  const std::string_view name = text.take_until('}', "\\p{ without }");
  const auto set = in_bracket && is_word(name) ? bracket_word() : hf_property(name);
  if (!set) text.refuse(concat("\\p{", name, "}"));
  return negated ? set->complement() : *set;
}

char32_t numbered(HfRegexText& text, std::string_view digits, int base) {
  std::uint32_t point = 0;
  const char* const end = digits.data() + digits.size();
  const auto [parsed, error] = std::from_chars(digits.data(), end, point, base);
  if (error != std::errc() || parsed != end || point > CodePoints::kLast ||
      (point >= 0xD800 && point < 0xE000))
    text.refuse(concat("the code point ", json_quoted(digits)));
  return point;
}

// Up to `most` digits; from 128 on they would be a byte of a character.
char32_t byte_numbered(HfRegexText& text, std::size_t most, int base) {
  const auto is_digit = [&](char c) {
    return base == 8 ? is_octal(c) : std::isxdigit(static_cast<unsigned char>(c)) != 0;
  };
  const std::string_view rest = text.rest();
  const auto end = std::ranges::find_if_not(rest.substr(0, most), is_digit);
  const std::string_view digits = rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
  const char32_t point = numbered(text, digits, base);
  if (point >= 0x80) text.refuse(concat("the byte ", json_quoted(digits)));
  text.skip(digits.size());
  return point;
}

char32_t braced(HfRegexText& text, int base) {
  const std::string_view digits = text.take_until('}', "{ without }");
  return numbered(text, digits, base);
}

}  // namespace

std::optional<CodePoints> hf_regex_class_escape(HfRegexText& text, bool in_bracket) {
  static constexpr std::pair<char, std::string_view> kClasses[] = {
      {'w', "word"}, {'s', "space"}, {'d', "digit"}, {'h', "xdigit"}};
  for (const auto& [letter, name] : kClasses) {
    const char upper = static_cast<char>(letter & ~0x20);
    const bool negated = text.take({&upper, 1});
    if (!negated && !text.take({&letter, 1})) continue;
    const CodePoints set = letter == 'w' && in_bracket ? bracket_word() : known_property(name);
    return negated ? set.complement() : set;
  }
  if (text.take("p{")) return property(text, false, in_bracket);
  if (text.take("P{")) return property(text, true, in_bracket);
  return std::nullopt;
}

char32_t hf_regex_character_escape(HfRegexText& text) {
  if (text.at_end()) text.refuse("a backslash");
  static constexpr std::pair<char, char32_t> kControls[] = {
      {'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'f', '\f'}, {'v', '\v'}, {'a', '\a'}, {'e', 0x1B}};
  for (const auto& [letter, point] : kControls)
    if (text.take({&letter, 1})) return point;
  if (text.take("u")) {
    const std::string_view digits = text.rest().substr(0, 4);
    if (digits.size() != 4) text.refuse(concat("the code point ", json_quoted(digits)));
    const char32_t point = numbered(text, digits, 16);
    text.skip(digits.size());
    return point;
  }
  if (text.take("x{")) return braced(text, 16);
  if (text.take("o{")) return braced(text, 8);
  if (text.take("x")) return byte_numbered(text, 2, 16);
  if (is_octal(text.next())) return byte_numbered(text, 3, 8);
  for (const std::string_view control : {"c", "C-"})
    if (text.take(control)) return text.take_character() & 0x1F;
  return text.take_character();
}

// --- Classes. ---

namespace {

constexpr int kMostDepth = 100;

std::optional<CodePoints> posix_class(std::string_view name) {
  if (name == "word") return bracket_word();
  if (name != "punct") return hf_property(name);
  CodePoints set = known_property("p");
  set.add(known_property("s"));
  return set;
}

class Bracket {
 public:
  explicit Bracket(HfRegexText& text) : text_(text) {}

  // `negated`: whether the ^ was there is told instead of done.
  CodePoints read(bool& negated, int depth) {
    if (depth > kMostDepth) text_.refuse("a class that deep in classes");
    negated = text_.take("^");
    CodePoints part;
    std::optional<CodePoints> others;  // before the last &&
    const auto met = [&] { return others ? others->intersection(part) : part; };
    const bool closes_later =
        text_.rest().substr(0, 1) == "]" && text_.rest().find(']', 1) != std::string_view::npos;
    if (closes_later && text_.take("]")) part.add({U']', U']'});
    while (!text_.take("]")) {
      if (text_.at_end()) text_.refuse("a class without its end");
      if (text_.take("&&")) {
        others = met();
        part = CodePoints();
      } else if (text_.take("[")) {
        part.add(inner(depth));
      } else {
        part.add(item());
      }
    }
    return met();
  }

 private:
  // Behind a [ in a class: [:NAME:], or a class.
  CodePoints inner(int depth) {
    const std::string_view rest = text_.rest();
    const std::size_t end = rest.find(":]");
    if (rest.starts_with(':') && end != rest.npos && end > 0) {
      std::string_view name = rest.substr(1, end - 1);
      const bool negated = name.starts_with('^');
      if (negated) name.remove_prefix(1);
      if (const auto set = posix_class(name)) {
        text_.skip(end + 2);
        return negated ? set->complement() : *set;
      }
    }
    bool negated = false;
    const CodePoints set = read(negated, depth + 1);
    return negated ? set.complement() : set;
  }

  char32_t character() {
    if (!text_.take("\\")) return text_.take_character();
    return text_.take("b") ? '\b' : hf_regex_character_escape(text_);
  }

  // A character, a range of them, or an escape that stands for several.
  CodePoints item() {
    if (text_.rest().starts_with('\\')) {
      HfRegexText ahead = text_;
      ahead.skip(1);
      if (const auto set = hf_regex_class_escape(ahead, true)) {
        text_.skip(text_.rest().size() - ahead.rest().size());
        return *set;
      }
    }
    const char32_t first = character();
    const std::string_view rest = text_.rest();
    if (!rest.starts_with("-") || rest.starts_with("-]")) return {first, first};
    text_.skip(1);
    if (text_.rest().starts_with("[")) text_.refuse("a class at the end of a range");
    const char32_t last = character();
    if (last < first) text_.refuse("a range that ends before it begins");
    return {first, last};
  }

  HfRegexText& text_;
};

// Characters that differ in case alone, by what they fold to.
const std::map<char32_t, std::vector<char32_t>>& cases() {
  static const auto kCases = [] {
    std::map<char32_t, std::vector<char32_t>> groups;
    for (char32_t point = 0; point < 0x20000; ++point) {
      const auto folded =
          static_cast<char32_t>(u_foldCase(static_cast<UChar32>(point), U_FOLD_CASE_DEFAULT));
      if (folded == point) continue;
      groups.try_emplace(folded, std::vector<char32_t>{folded}).first->second.push_back(point);
    }
    return groups;
  }();
  return kCases;
}

}  // namespace

CodePoints in_any_case(CodePoints set) {
  std::vector<CodePoints::Range> more;
  for (const auto& [folded, members] : cases()) {
    const auto is_in = [&](char32_t point) { return set.contains(point); };
    if (std::ranges::any_of(members, is_in))
      for (const char32_t point : members) more.emplace_back(point, point);
  }
  std::ranges::sort(more);
  set.add(CodePoints(std::move(more)));
  return set;
}

CodePoints hf_regex_bracket(HfRegexText& text, bool ignore_case) {
  bool negated = false;
  CodePoints set = Bracket(text).read(negated, 0);
  if (ignore_case) set = in_any_case(std::move(set));
  return negated ? set.complement() : set;
}

}  // namespace mt
