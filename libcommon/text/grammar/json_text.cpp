#include "text/grammar/json_text.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/utf8.h"

namespace mt {

static constexpr char32_t kLast = 0x10FFFF;

static PointRanges in_order(PointRanges ranges) {
  std::sort(ranges.begin(), ranges.end());
  PointRanges joined;
  for (const auto& [low, high] : ranges)
    if (!joined.empty() && low <= joined.back().second + 1)
      joined.back().second = std::max(joined.back().second, high);
    else
      joined.emplace_back(low, high);
  return joined;
}

PointRanges complement(PointRanges ranges) {
  PointRanges others;
  char32_t next = 0;
  for (const auto& [low, high] : in_order(std::move(ranges))) {
    if (low > next) others.emplace_back(next, low - 1);
    next = high + 1;
  }
  if (next <= kLast) others.emplace_back(next, kLast);
  return others;
}

ByteGrammar::Node add_character(ByteGrammar& g, ByteGrammar::Node from, const PointRanges& ranges) {
  const ByteGrammar::Node to = g.add();
  const auto escape = [&](std::string_view text) { g.link(g.text(from, text), to); };
  for (const auto& [low, high] : ranges) {
    for (char32_t point = low; point <= std::min<char32_t>(high, 0x1F); ++point) {
      static constexpr std::string_view kShort = "btn_fr", kDigits = "0123456789abcdef";
      if (8 <= point && point <= 13 && point != 11)
        escape(concat("\\", kShort[point - 8]));
      else
        escape(concat("\\u00", kDigits[point >> 4], kDigits[point & 15]));
    }
    char32_t next = std::max<char32_t>(low, 0x20);
    for (const char32_t own : {U'"', U'\\'}) {
      if (own < next || own > high) continue;
      if (own > next) g.points(from, next, own - 1, to);
      escape(own == U'"' ? R"(\")" : R"(\\)");
      next = own + 1;
    }
    if (next <= high) g.points(from, next, high, to);
  }
  return to;
}

// --- Regular expressions ------------------------------------------------------------------------

namespace {

class Pattern {
 public:
  Pattern(ByteGrammar& grammar, std::string_view text) : g_(grammar), text_(text) {}

  ByteGrammar::Node add(ByteGrammar::Node from) {
    if (text_.size() > kMostBytes) fail(Exit::bad_data, "pattern: more than 1024 bytes");
    const ByteGrammar::Node to = alternatives(from, true);
    if (at_ < text_.size()) wrong("an unexpected )");
    return to;
  }

 private:
  using Node = ByteGrammar::Node;
  static constexpr std::int64_t kMostTimes = 1000;
  static constexpr std::size_t kMostBytes = 1024;

  [[noreturn]] void wrong(std::string_view what) const {
    fail(Exit::bad_data, "pattern: ", what, " at byte ", at_);
  }
  bool next_is(std::string_view what) const {
    return text_.substr(at_).substr(0, what.size()) == what;
  }
  bool take(std::string_view what) {
    if (!next_is(what)) return false;
    at_ += what.size();
    return true;
  }

  Node anything(Node from) {
    const Node to = g_.add();
    g_.link(from, to);
    g_.link(add_character(g_, to, complement({})), to);
    return to;
  }

  Node alternatives(Node from, bool outside) {
    if (++depth_ > 50) wrong("more than 50 groups in each other");
    const Node to = g_.add();
    do {
      const bool anchored = outside && take("^");
      Node at = anchored || !outside ? g_.add() : anything(from);
      if (anchored || !outside) g_.link(from, at);
      while (at_ < text_.size() && !next_is("|") && !next_is(")")) {
        if (outside && next_is("$") && (at_ + 1 == text_.size() || text_[at_ + 1] == '|')) break;
        at = repeated(at);
      }
      if (outside && !take("$")) at = anything(at);
      g_.link(at, to);
    } while (take("|"));
    --depth_;
    return to;
  }

  static constexpr std::int64_t kEndless = -1;
  struct Times {
    std::int64_t least = 1, most = 1;
  };

  Node repeated(Node from) {
    const std::size_t begin = at_;
    const Node once = atom(from);
    const Times times = read_times();
    const std::size_t end = at_;
    if (next_is("*") || next_is("+") || next_is("{")) wrong("a second repetition");
    const auto again = [&](Node at) {
      at_ = begin;
      return atom(at);
    };
    const Node last = g_.add();
    if (times.least == 0) g_.link(from, last);
    if (times.most != 0) {
      Node at = once;
      for (std::int64_t i = 1; i < times.least; ++i) at = again(at);
      g_.link(at, last);
      if (times.most == kEndless) {
        const Node loop = g_.add();
        g_.link(at, loop);
        g_.link(again(loop), at);
      }
      for (std::int64_t i = std::max<std::int64_t>(1, times.least); i < times.most; ++i)
        g_.link(at = again(at), last);
    }
    at_ = end;
    return last;
  }

  Times read_times() {
    Times times;
    if (take("*"))
      times = {0, kEndless};
    else if (take("+"))
      times = {1, kEndless};
    else if (take("?"))
      times = {0, 1};
    else if (take("{"))
      times = read_braces();
    else
      return times;
    take("?");  // as few as possible: the same texts
    return times;
  }

  Times read_braces() {
    const auto number = [&] {
      std::int64_t value = 0;
      const std::size_t begin = at_;
      for (; at_ < text_.size() && '0' <= text_[at_] && text_[at_] <= '9'; ++at_)
        if ((value = value * 10 + (text_[at_] - '0')) > kMostTimes)
          wrong("more than 1000 repetitions");
      if (at_ == begin) wrong("a { without a number");
      return value;
    };
    const std::int64_t least = number();
    if (take("}")) return {least, least};
    if (!take(",")) wrong("a { that does not end");
    if (take("}")) return {least, kEndless};
    const std::int64_t most = number();
    if (!take("}") || most < least) wrong("a { that does not end, or whose numbers fall");
    return {least, most};
  }

  Node atom(Node from) {
    if (take("(")) {
      if (next_is("?") && !take("?:")) wrong("a group of a kind that is not understood");
      const Node to = alternatives(from, false);
      if (!take(")")) wrong("a ( without )");
      return to;
    }
    if (at_ == text_.size() || next_is("*") || next_is("+") || next_is("?") || next_is("{"))
      wrong("a repetition of nothing");
    if (next_is("^") || next_is("$")) wrong("an anchor inside");
    if (take("[")) return add_character(g_, from, class_here());
    if (take(".")) return add_character(g_, from, complement({{'\n', '\n'}}));
    return add_character(g_, from, single());
  }

  // A character, or an escape, which may be a class.
  PointRanges single() {
    if (!take("\\")) {
      const char32_t point = next_code_point(text_, at_);
      return {{point, point}};
    }
    if (at_ == text_.size()) wrong("a \\ at the end");
    static const PointRanges kDigit = {{'0', '9'}},
                             kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                             kSpace = {{'\t', '\r'}, {' ', ' '}, {0xA0, 0xA0}, {0x2028, 0x2029}};
    const char c = text_[at_++];
    switch (c) {
      case 'd':
        return kDigit;
      case 'D':
        return complement(kDigit);
      case 'w':
        return kWord;
      case 'W':
        return complement(kWord);
      case 's':
        return kSpace;
      case 'S':
        return complement(kSpace);
      case 'n':
        return {{'\n', '\n'}};
      case 'r':
        return {{'\r', '\r'}};
      case 't':
        return {{'\t', '\t'}};
      case 'f':
        return {{'\f', '\f'}};
      case 'v':
        return {{'\v', '\v'}};
      case 'x':
        return hexadecimal(2);
      case 'u':
        return hexadecimal(4);
      default:
        break;
    }
    if (('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c < 0) {
      --at_;
      wrong("an escape that is not understood");
    }
    return {{static_cast<char32_t>(c), static_cast<char32_t>(c)}};
  }

  PointRanges hexadecimal(std::size_t digits) {
    char32_t point = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      const char c = at_ < text_.size() ? text_[at_++] : '_';
      const std::string_view all = "0123456789abcdefABCDEF";
      const std::size_t place = all.find(c);
      if (place == all.npos) wrong("an escape without its digits");
      point = point * 16 + static_cast<char32_t>(place < 16 ? place : place - 6);
    }
    return {{point, point}};
  }

  // A class is read once, however often it is repeated.
  const PointRanges& class_here() {
    const auto [found, is_new] = classes_.try_emplace(at_);
    Class& read = found->second;
    if (is_new) {
      read.ranges = members();
      read.end = at_;
    }
    at_ = read.end;
    return read.ranges;
  }

  PointRanges members() {
    const bool others = take("^");
    PointRanges all;
    for (bool first = true; first || !next_is("]"); first = false) {
      if (at_ == text_.size()) wrong("a [ without ]");
      if (first && next_is("]")) break;
      PointRanges low = single();
      const bool is_one = low.size() == 1 && low[0].first == low[0].second;
      if (is_one && next_is("-") && text_.substr(at_, 2) != "-]") {
        take("-");
        if (at_ == text_.size()) wrong("a [ without ]");
        const PointRanges high = single();
        if (high.size() != 1 || high[0].first != high[0].second || high[0].first < low[0].first)
          wrong("a range that falls");
        low[0].second = high[0].first;
      }
      all.insert(all.end(), low.begin(), low.end());
    }
    take("]");
    return others ? complement(std::move(all)) : in_order(std::move(all));
  }

  ByteGrammar& g_;
  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  struct Class {
    PointRanges ranges;
    std::size_t end = 0;
  };
  std::map<std::size_t, Class> classes_;  // by where they begin
};

}  // namespace

ByteGrammar::Node add_pattern(ByteGrammar& grammar, ByteGrammar::Node from,
                              std::string_view pattern) {
  return Pattern(grammar, pattern).add(from);
}

std::string_view pattern_of_format(std::string_view format) {
  static constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
      {"date-time",
       R"(^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$)"},
      {"date", "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"},
      {"time",
       R"(^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$)"},
      {"uuid", "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"},
      {"ipv4",
       R"(^((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])$)"},
      {"email",
       R"(^[A-Za-z0-9_+-]+(\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9]+(-[A-Za-z0-9]+)*(\.[A-Za-z0-9]+(-[A-Za-z0-9]+)*)+$)"}};
  for (const auto& [name, pattern] : kFormats)
    if (name == format) return pattern;
  fail(Exit::bad_data, "format \"", format,
       "\": expected date-time, date, time, uuid, ipv4 or email");
}

}  // namespace mt
