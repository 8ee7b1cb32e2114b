#include "text/hf/hf_regex_syntax.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "base/json_object.h"
#include "base/utf8.h"
#include "text/hf/hf_regex_class.h"

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
    if (first > last) continue;
    ranges += written(first);
    if (first != last) ranges += concat("-", written(last));
  }
  return ranges.empty() ? "(?!)" : concat("[", ranges, "]");
}

bool is_quantifier(char c) { return c == '*' || c == '+' || c == '?' || c == '{'; }

// What the options in effect say, as (?imx-imx) sets them.
struct Mode {
  bool ignore_case = false, dot_takes_line_ends = false, extended = false;
};

// Characters that are several letters once case does not count, with those letters.
struct Ligature {
  std::string_view letters;
  std::string_view characters;  // one of them stands for all letters
};
constexpr Ligature kLigatures[] = {{"ffi", "\uFB03"},     {"ffl", "\uFB04"}, {"ff", "\uFB00"},
                                   {"fi", "\uFB01"},      {"fl", "\uFB02"},  {"ss", "\u00DF\u1E9E"},
                                   {"st", "\uFB05\uFB06"}};

class Rewriter {
 public:
  Rewriter(std::string_view text, const JsonObject& where) : text_(text, where) {
    count_groups(text);
  }

  Pcre2Expression rewrite() {
    result_.text = alternatives({}, 0);
    if (!text_.at_end()) text_.refuse("a group's end without its start");
    return std::move(result_);
  }

 private:
  static constexpr int kMostDepth = 200;          // of groups: PCRE2's own is 250
  static constexpr std::size_t kMostSets = 1000;  // that differ, of 20 KiB at most each

  // --- Groups. ---

  // Plain groups capture nothing where there are groups with names.
  void count_groups(std::string_view text) {
    int plain = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (text[at] == '\\')
        ++at;  // and what is behind it
      else if (text[at] == '(')
        count_group(text.substr(at), plain);
    }
    groups_ = named_ ? 0 : plain;
  }

  void count_group(std::string_view rest, int& plain) {
    if (!rest.starts_with("(?")) ++plain;
    named_ |= (rest.starts_with("(?<") && rest.size() > 3 && rest[3] != '=' && rest[3] != '!') ||
              rest.starts_with("(?'");
  }

  // Up to the end of the group, which is left there.
  std::string alternatives(Mode mode, int depth) {
    if (depth > kMostDepth) text_.refuse("a group that deep in groups");
    std::string out;
    while (!text_.at_end() && text_.next() != ')') {
      if (out.size() > Pcre2Expression::kMostBytes)
        text_.refuse("more than a megabyte once written out");
      if (text_.take("|"))
        out += '|';
      else if (text_.take("(?#"))
        text_.take_until(')', "a comment without its end");
      else if (mode.extended && skip_blank())
        continue;
      else if (text_.rest().starts_with("(?") && options_alone())
        out += rest_in_another_mode(mode, depth);
      else
        out += term(mode, depth);
    }
    return out;
  }

  bool skip_blank() {
    if (text_.take("#")) {
      while (!text_.at_end() && text_.next() != '\n') text_.skip(1);
      return true;
    }
    for (const char blank : {' ', '\t', '\n', '\r', '\f', '\v'})
      if (text_.take({&blank, 1})) return true;
    return false;
  }

  // Is this "(?imx-imx)", which holds to the end of the group around it?
  bool options_alone() const {
    const std::string_view rest = text_.rest().substr(2);
    const std::size_t end = rest.find_first_not_of("imx-");
    return end != rest.npos && end > 0 && rest[end] == ')';
  }

  Mode options(Mode mode) {
    for (bool value = true; std::string_view("imx-").find(text_.next()) != std::string_view::npos;
         text_.skip(1)) {
      switch (text_.next()) {
        case 'i':
          mode.ignore_case = value;
          break;
        case 'm':
          mode.dot_takes_line_ends = value;
          break;
        case 'x':
          mode.extended = value;
          break;
        default:
          value = false;
      }
    }
    return mode;
  }

  std::string rest_in_another_mode(Mode mode, int depth) {
    text_.skip(2);
    mode = options(mode);
    text_.skip(1);
    return concat("(?:", alternatives(mode, depth + 1), ")");
  }

  std::string group(std::string_view open, Mode mode, int depth) {
    std::string inside = alternatives(mode, depth + 1);
    if (!text_.take(")")) text_.refuse("a group without its end");
    return concat(open, inside, ")");
  }

  std::string name_until(char end) {
    const std::string_view name = text_.take_until(end, "a name without its end");
    const auto is_plain = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    if (name.empty() || name.size() > 32 || !std::ranges::all_of(name, is_plain) ||
        (name[0] >= '0' && name[0] <= '9'))
      text_.refuse(concat("the name ", json_quoted(name)));
    return std::string(name);
  }

  // Behind a (.
  std::string any_group(Mode mode, int depth) {
    for (const std::string_view open : {"?:", "?=", "?!", "?<=", "?<!", "?>"})
      if (text_.take(open)) return group(concat("(", open), mode, depth);
    for (const auto& [open, end] : {std::pair{"?<", '>'}, {"?'", '\''}})
      if (text_.take(open)) return group(concat("(?<", name_until(end), ">"), mode, depth);
    if (!text_.rest().starts_with("?") && !text_.rest().starts_with("*")) {
      ++opened_;
      return group(named_ ? "(?:" : "(", mode, depth);
    }
    const std::string_view rest = text_.rest();
    const std::size_t end = std::min(rest.find_first_not_of("imx-", 1), rest.size());
    if (end == rest.size() || end == 1 || rest[end] != ':')
      text_.refuse(concat("the group ", json_quoted(concat("(", rest.substr(0, 2)))));
    text_.skip(1);
    mode = options(mode);
    text_.skip(1);
    return group("(?:", mode, depth);
  }

  // --- What repeats. ---

  std::string term(Mode mode, int depth) {
    bool repeats = true;  // may it be repeated?
    std::string atom = one(mode, depth, repeats);
    for (bool again = false;; again = true) {
      while (mode.extended && skip_blank()) continue;
      if (text_.at_end() || !is_quantifier(text_.next())) return atom;
      const std::optional<std::string> count = counted();
      if (!count && text_.next() == '{') return atom;  // a character
      if (!repeats) text_.refuse("a quantifier of what is not to be repeated");
      if (again) atom = concat("(?:", atom, ")");
      atom = repeated(atom, count);
    }
  }

  // {n}, {n,}, {,m} or {n,m} as PCRE2 writes them, not passed over; nothing for a { of its own.
  std::optional<std::string> counted() const {
    const std::string_view rest = text_.rest();
    const std::size_t end = rest.find('}');
    if (!rest.starts_with('{') || end == rest.npos) return std::nullopt;
    const std::string_view counts = rest.substr(1, end - 1);
    const std::size_t comma = std::min(counts.find(','), counts.size());
    const std::string_view least = counts.substr(0, comma);
    const std::string_view most = counts.substr(std::min(comma + 1, counts.size()));
    const auto is_number = [](std::string_view digits) {
      return digits.find_first_not_of("0123456789") == digits.npos;
    };
    if (!is_number(least) || !is_number(most) || (least.empty() && most.empty()))
      return std::nullopt;
    if (least.size() > 4 || most.size() > 4) text_.refuse("a count of more than four digits");
    if (comma == counts.size()) return concat("{", least, "}");
    return concat("{", least.empty() ? "0" : least, ",", most, "}");
  }

  std::string repeated(std::string_view atom, const std::optional<std::string>& count) {
    if (!count) {
      const char c = text_.next();
      text_.skip(1);
      for (const std::string_view mode : {"+", "?"})
        if (text_.take(mode)) return concat(atom, std::string_view(&c, 1), mode);
      return concat(atom, std::string_view(&c, 1));
    }
    text_.take_until('}', "{");
    if (!text_.take("?")) return concat(atom, *count);  // a + repeats it once more
    const bool exact = count->find(',') == count->npos;
    return exact ? concat("(?:", atom, *count, ")?") : concat(atom, *count, "?");
  }

  // --- What is one. ---

  std::string one(Mode mode, int depth, bool& repeats) {
    if (text_.take("(")) {
      const std::string_view rest = text_.rest();
      for (const std::string_view look : {"?=", "?!", "?<=", "?<!"})
        if (rest.starts_with(look)) repeats = false;
      return any_group(mode, depth);
    }
    for (const std::string_view anchor : {"^", "$"})
      if (text_.take(anchor)) {
        repeats = false;
        return std::string(anchor);
      }
    if (text_.take(".")) return mode.dot_takes_line_ends ? "(?s:.)" : "[^\\n]";
    if (text_.take("[")) return set(hf_regex_bracket(text_, mode.ignore_case));
    if (text_.take("\\")) return escape(mode, repeats);
    if (is_quantifier(text_.next()) && (text_.next() != '{' || counted()))
      text_.refuse(
          concat("the quantifier ", json_quoted(text_.rest().substr(0, 1)), ", of nothing,"));
    if (mode.ignore_case)
      if (std::string letters = ligature(); !letters.empty()) return letters;
    return character(text_.take_character(), mode);
  }

  std::string set(const CodePoints& points) {
    const auto& ranges = points.ranges();
    if (ranges.size() == 1 && ranges[0].first == ranges[0].second) return written(ranges[0].first);
    const std::string text = written(points);
    const auto known = std::ranges::find(result_.sets, text);
    const auto index = known - result_.sets.begin();
    if (known == result_.sets.end()) {
      if (result_.sets.size() == kMostSets) text_.refuse("a set of characters beyond the 1000th");
      result_.sets.push_back(text);
    }
    const char begin = Pcre2Expression::kClass, end = Pcre2Expression::kEnd;
    return concat(std::string_view(&begin, 1), index, std::string_view(&end, 1));
  }

  std::string character(char32_t point, Mode mode) {
    if (!mode.ignore_case) return written(point);
    for (const auto& [letters, characters] : kLigatures) {
      std::string one_of_them;
      append_utf8(one_of_them, point);
      if (characters.find(one_of_them) == characters.npos) continue;
      std::string spelled;
      for (const char c : letters) spelled += set(in_any_case({char32_t(c), char32_t(c)}));
      return concat("(?:", set(in_any_case({point, point})), "|", spelled, ")");
    }
    return set(in_any_case({point, point}));
  }

  // Letters that a ligature may stand for, if no quantifier takes the last of them; else nothing.
  std::string ligature() {
    std::string lower(text_.rest().substr(0, 3));
    for (char& c : lower)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
    for (const auto& [letters, characters] : kLigatures) {
      const std::string_view behind = text_.rest().substr(std::min(letters.size(), lower.size()));
      if (!lower.starts_with(letters) || (!behind.empty() && is_quantifier(behind[0]))) continue;
      text_.skip(letters.size());
      return concat("(?:", spellings(letters), ")");
    }
    return {};
  }

  // All ways to write the letters, in alternatives.
  std::string spellings(std::string_view letters) {
    if (letters.empty()) return {};
    const auto letter = static_cast<char32_t>(letters[0]);
    std::string rest = spellings(letters.substr(1));
    std::string out = concat(set(in_any_case({letter, letter})), "(?:", rest, ")");
    for (const auto& [all, characters] : kLigatures) {
      if (!letters.starts_with(all)) continue;
      CodePoints points;
      for (std::size_t at = 0; at < characters.size();) {
        const char32_t point = next_code_point(characters, at);
        points.add({point, point});
      }
      out += concat("|", set(points), "(?:", spellings(letters.substr(all.size())), ")");
    }
    return out;
  }

  // --- Escapes. ---

  // Behind a backslash.
  std::string escape(Mode mode, bool& repeats) {
    // Case counts for these in any mode, as Oniguruma has it.
    if (const auto points = hf_regex_class_escape(text_)) return set(*points);
    if (const auto place = anchor()) {
      repeats = false;
      return *place;
    }
    if (text_.take("R")) return "(?>\\r\\n|[\\n-\\r\\x{85}\\x{2028}\\x{2029}])";
    if (text_.take("N")) return "[^\\n]";
    if (text_.take("O")) return "(?s:.)";
    for (const std::string_view same : {"X", "K"})
      if (text_.take(same)) {
        repeats = same == "X";
        return concat("\\", same);
      }
    for (const std::string_view other : {"y", "Y", "M-"})
      if (text_.rest().starts_with(other)) text_.refuse(concat("\\", other));
    if (text_.take("Q")) return quoted(mode);
    if (auto back = reference(mode)) return *back;
    return character(hf_regex_character_escape(text_), mode);
  }

  std::optional<std::string> anchor() {
    for (const std::string_view same : {"A", "z", "Z", "G"})
      if (text_.take(same)) return concat("\\", same);
    const bool edge = text_.take("b");
    if (!edge && !text_.take("B")) return std::nullopt;
    const std::string word = set(known_property("word"));
    const auto [left, right] = edge ? std::pair{"(?!", "(?="} : std::pair{"(?=", "(?!"};
    return concat("(?:(?<=", word, ")", left, word, ")|(?<!", word, ")", right, word, "))");
  }

  std::string quoted(Mode mode) {
    const std::string_view rest = text_.rest();
    const std::size_t end = std::min(rest.find("\\E"), rest.size());
    std::string out;
    const std::size_t behind = rest.size() - end;
    while (text_.rest().size() > behind) out += character(text_.take_character(), mode);
    text_.take("\\E");
    return concat("(?:", out, ")");
  }

  // \1 \k<1> \k<-1> \k<NAME>, and the calls \g<1> and \g<NAME>.
  std::optional<std::string> reference(Mode mode) {
    const bool back = text_.take("k<");
    if (back || text_.take("g<")) {
      const std::string_view inside = text_.take_until('>', "a name without its end");
      const bool number = inside.find_first_not_of("-0123456789") == inside.npos;
      if (inside.empty() || (number && named_)) text_.refuse("a number beside names");
      if (!back) return concat("\\g<", inside, ">");
      if (!number) return ignoring(concat("\\k<", inside, ">"), inside, mode);
      return ignoring(concat("\\g{", inside, "}"), absolute(inside), mode);
    }
    const std::string_view rest = text_.rest();
    const std::size_t size = std::min(rest.find_first_not_of("0123456789"), rest.size());
    if (size == 0 || size > 3 || rest[0] == '0') return std::nullopt;
    int index = 0;
    std::from_chars(rest.data(), rest.data() + size, index);
    if (index > groups_) {
      if (size == 1 || rest[0] > '7') text_.refuse(concat("\\", rest.substr(0, size)));
      return std::nullopt;  // a character by its octal number
    }
    text_.skip(size);
    return ignoring(concat("\\g{", index, "}"), concat(index), mode);
  }

  // "-1" is the group that was opened last.
  std::string absolute(std::string_view number) const {
    int index = 0;
    std::from_chars(number.data(), number.data() + number.size(), index);
    return concat(index < 0 ? opened_ + 1 + index : index);
  }

  // Where case does not count, HfRegex is asked behind it, by the group's number or name.
  static std::string ignoring(std::string reference, std::string_view name, Mode mode) {
    return mode.ignore_case ? concat("(?:(?i:", reference, ")(?C\"", name, "\"))") : reference;
  }

  HfRegexText text_;
  Pcre2Expression result_;
  int groups_ = 0;  // that capture and have no name
  int opened_ = 0;  // of them, so far
  bool named_ = false;
};

// The text with each set as `write` says.
template <class Write>
std::string expanded(const Pcre2Expression& expression, const Write& write) {
  std::string out;
  const std::string_view text = expression.text;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != Pcre2Expression::kClass) {
      out += text[at];
      continue;
    }
    const std::size_t end = text.find(Pcre2Expression::kEnd, at);
    std::size_t index = 0;
    std::from_chars(text.data() + at + 1, text.data() + end, index);
    out += write(index);
    at = end;
    if (out.size() > Pcre2Expression::kMostBytes) return {};
  }
  return out;
}

}  // namespace

std::string Pcre2Expression::inlined() const {
  return expanded(*this, [&](std::size_t index) { return std::string_view(sets[index]); });
}

std::string Pcre2Expression::shared() const {
  const auto name = [](std::size_t index) { return concat("mtset", index); };
  std::string out = concat(
      "(?:", expanded(*this, [&](std::size_t index) { return concat("(?&", name(index), ")"); }),
      ")(?(DEFINE)");
  for (std::size_t i = 0; i < sets.size(); ++i) out += concat("(?<", name(i), ">", sets[i], ")");
  return out + ")";
}

Pcre2Expression pcre2_expression(std::string_view expression, const JsonObject& where) {
  return Rewriter(expression, where).rewrite();
}

}  // namespace mt
