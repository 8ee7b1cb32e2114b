#include "text/grammar/pattern.h"

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

namespace {

class Pattern {
 public:
  Pattern(ByteGrammar& grammar, std::string_view text, const PatternWriter& write)
      : g_(grammar), text_(text), write_(write) {}

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

  // What may stand in front of a match, and behind it.
  Node outside_of(Node from) {
    const Node to = g_.add();
    g_.link(from, to);
    if (!write_.whole) g_.link(write_.character(g_, to, complement({})), to);
    return to;
  }

  Node alternatives(Node from, bool outside) {
    if (++depth_ > 50) wrong("more than 50 groups in each other");
    const Node to = g_.add();
    do {
      const bool anchored = outside && take("^");
      Node at = anchored || !outside ? g_.add() : outside_of(from);
      if (anchored || !outside) g_.link(from, at);
      while (at_ < text_.size() && !next_is("|") && !next_is(")")) {
        if (outside && next_is("$") && (at_ + 1 == text_.size() || text_[at_ + 1] == '|')) break;
        at = repeated(at);
      }
      if (outside && !take("$")) at = outside_of(at);
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
    if (take("[")) return write_.character(g_, from, class_here());
    if (take(".")) return write_.character(g_, from, complement({{'\n', '\n'}}));
    return write_.character(g_, from, single());
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
  PatternWriter write_;
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
                              std::string_view pattern, const PatternWriter& write) {
  return Pattern(grammar, pattern, write).add(from);
}

static ByteGrammar::Node add_point(ByteGrammar& grammar, ByteGrammar::Node from,
                                   const PointRanges& ranges) {
  const ByteGrammar::Node to = grammar.add();
  for (const auto& [low, high] : ranges) grammar.points(from, low, high, to);
  return to;
}

ByteGrammar grammar_of_pattern(std::string_view pattern) {
  ByteGrammar grammar;
  const ByteGrammar::Rule all = grammar.add_rule();
  grammar.link(
      add_pattern(grammar, grammar.begin(all), pattern, {.character = add_point, .whole = true}),
      grammar.end(all));
  grammar.finish();
  return grammar;
}

}  // namespace mt
