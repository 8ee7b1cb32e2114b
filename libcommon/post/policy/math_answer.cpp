#include "post/policy/math_answer.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "post/policy/math_equal.h"

namespace mt {
namespace {

constexpr std::string_view kSpace = " \t\r\n\v\f";
bool is_space(char c) { return kSpace.find(c) != kSpace.npos; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A part of the text that may be its answer.
struct Find {
  std::size_t begin = 0, end = 0;
  std::string formula;
};

char small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Where `word`, of small letters, stands next, from `at` on.
std::size_t find_word(std::string_view text, std::string_view word, std::size_t at) {
  const auto found =
      std::search(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), word.begin(),
                  word.end(), [](char a, char b) { return small(a) == b; });
  return found == text.end() ? text.npos : static_cast<std::size_t>(found - text.begin());
}

std::size_t skip_space(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(kSpace, at), text.size());
}

// The end of %, \% or percent behind `at`, or `at`.
std::size_t skip_percent(std::string_view text, std::size_t at) {
  const std::size_t begin = skip_space(text, at);
  for (const std::string_view sign : {"\\%", "%", "percentage", "percent", "pct"})
    if (find_word(text.substr(begin, sign.size()), sign, 0) == 0) return begin + sign.size();
  return at;
}

class Finder {
 public:
  explicit Finder(std::string_view text) : text_(text) {
    find_formulas();
    find_numbers();
  }

  // Those that are tried in turn.
  std::vector<std::string> in_turn() {
    std::vector<Find> hoped, final = boxes(), colon, word;
    for (std::size_t at = 0; (at = find_word(text_, "final answer", at)) != text_.npos; ++at)
      if (const Find* const found = behind_is(at + 12))
        (is_hoped(*found) ? hoped : final).push_back(*found);
    for (std::size_t at = 0; (at = find_word(text_, "answer", at)) != text_.npos; at += 6)
      for (const std::vector<Find>* finds : {&formulas_, &numbers_})
        if (const Find* const found = near(at + 6, *finds)) {
          (text_.substr(at + 6).starts_with(':') ? colon : word).push_back(*found);
        }
    std::vector<Find> all = formulas_;
    all.insert(all.end(), numbers_.begin(), numbers_.end());
    std::vector<std::string> turns;
    for (std::vector<Find>* level : {&hoped, &final, &colon, &word, &all}) {
      std::ranges::stable_sort(*level, [](const Find& a, const Find& b) {
        return std::tuple(b.end, a.begin) < std::tuple(a.end, b.begin);
      });
      for (Find& find : *level) turns.push_back(std::move(find.formula));
    }
    return turns;
  }

 private:
  struct Delimiters {
    std::string_view open, close;
    bool on_a_line;
    std::size_t open_until = 0;  // what is opened before this is closed nowhere
  };

  // Where what is opened before `at` is closed.
  std::optional<std::size_t> closing(std::size_t at, Delimiters& delimiters) const {
    if (at < delimiters.open_until) return std::nullopt;
    for (; at < text_.size(); ++at) {
      if (text_.substr(at).starts_with(delimiters.close)) return at;
      if (text_[at] == '\n' && delimiters.on_a_line) break;
      if (text_[at] == '\\') ++at;
    }
    delimiters.open_until = at;
    return std::nullopt;
  }

  std::optional<Find> formula_at(std::size_t at) {
    for (Delimiters& delimiters : delimiters_) {
      if (!text_.substr(at).starts_with(delimiters.open)) continue;
      const std::size_t begin = at + delimiters.open.size();
      const std::optional<std::size_t> end = closing(begin, delimiters);
      if (!end || *end == begin) continue;
      return Find{at, *end + delimiters.close.size(),
                  std::string(text_.substr(begin, *end - begin))};
    }
    const std::size_t first = text_.substr(at).starts_with("-") ? at + 1 : at;
    if (!text_.substr(first).starts_with("\\frac{")) return std::nullopt;
    std::size_t end = first + 5;
    for (int group = 0; group < 2; ++group) {
      if (end >= text_.size() || text_[end] != '{') return std::nullopt;
      const std::size_t close = text_.find_first_not_of("-0123456789.,", end + 1);
      if (close == text_.npos || text_[close] != '}' || close == end + 1) return std::nullopt;
      end = close + 1;
    }
    return Find{at, end, std::string(text_.substr(at, end - at))};
  }

  // One formula, and those joined to it by commas, "and" or "or".
  void find_formulas() {
    for (std::size_t at = 0; at < text_.size(); ++at) {
      if (at > 0 && (text_[at - 1] == '\\' || (is_digit(text_[at - 1]) && text_[at] == '$')))
        continue;
      std::optional<Find> found = formula_at(at);
      if (!found) continue;
      take_percent(*found);
      for (int joined = 0; joined < 5; ++joined) {
        std::size_t next = skip_space(text_, found->end);
        const std::size_t before = next;
        for (const std::string_view word : {",and", ",or", ", and", ", or", "and", "or", ","})
          if (text_.substr(next).starts_with(word)) {
            next += word.size();
            break;
          }
        std::optional<Find> other =
            next == before ? std::nullopt : formula_at(skip_space(text_, next));
        if (!other) break;
        take_percent(*other);
        found->end = other->end;
        found->formula += "," + other->formula;
      }
      at = found->end - 1;
      formulas_.push_back(std::move(*found));
    }
  }

  void take_percent(Find& find) const {
    const std::size_t end = skip_percent(text_, find.end);
    if (end == find.end) return;
    find.end = end;
    find.formula += "%";
  }

  // Numbers and sums of numbers that begin as words do.
  void find_numbers() {
    for (std::size_t at = 0; at < text_.size(); ++at) {
      if (at > 0 && !is_space(text_[at - 1]) && text_[at - 1] != '=') continue;
      std::size_t begin = at + (text_.substr(at).starts_with("**") ? 2 : 0);
      if (auto found = sum_at(begin)) {
        at = found->end - 1;
        numbers_.push_back(std::move(*found));
        continue;
      }
      for (const std::string_view sign : {"$", "€", "£", "¥", "₹"})
        if (text_.substr(begin).starts_with(sign)) {
          begin += sign.size();
          break;
        }
      if (auto found = number_at(begin)) {
        take_percent(*found);
        numbers_.push_back(std::move(*found));
      }
    }
  }

  std::optional<Find> sum_at(std::size_t at) const {
    constexpr std::string_view kSigns = "+-*/^()", kAll = "0123456789. \t\r\n+-*/^()";
    std::size_t digit = at;
    if (digit < text_.size() && text_[digit] == '-') ++digit;
    if (digit < text_.size() && text_[digit] == '(') ++digit;
    if (digit < text_.size() && text_[digit] == '-') ++digit;
    if (digit >= text_.size() || !is_digit(text_[digit])) return std::nullopt;
    const std::size_t most = std::min(text_.find_first_not_of(kAll, digit), text_.size());
    const std::size_t sign = text_.find_first_of(kSigns, digit);
    // The longest that something stands behind, and behind one sign of which something stands.
    for (std::size_t end = most; sign != text_.npos && end > sign + 1; --end)
      if (end == text_.size() || is_space(text_[end]) ||
          std::string_view(".,:)$").find(text_[end]) != std::string_view::npos ||
          text_.substr(end).starts_with("**"))
        return Find{at, std::min(end + 1, text_.size()), std::string(text_.substr(at, end - at))};
    return std::nullopt;
  }

  std::optional<Find> number_at(std::size_t at) const {
    std::size_t end = at + (at < text_.size() && text_[at] == '-' ? 1 : 0);
    const auto digits = [&](std::size_t from) {
      std::size_t count = 0;
      while (from + count < text_.size() && is_digit(text_[from + count])) ++count;
      return count;
    };
    std::size_t whole = digits(end);
    std::string made(text_.substr(at, end - at + whole));
    const bool has_sign = end > at;
    end += whole;
    const auto groups = [&](std::size_t from) {
      return from < text_.size() && (text_[from] == ',' || text_[from] == ' ') &&
             digits(from + 1) >= 3;
    };
    if (whole > 0 && whole <= 3 && text_[end - whole] != '0' && groups(end)) {
      while (groups(end)) {
        made += text_.substr(end + 1, 3);
        end += 4;
        if (digits(end) > 0) break;
      }
      if (end < text_.size() && text_[end] == '.' && digits(end + 1) > 0)
        append_decimals(made, end, digits(end + 1));
    } else if (whole > 0) {
      if (end < text_.size() && (text_[end] == '.' || text_[end] == ',') && digits(end + 1) > 0)
        append_decimals(made, end, digits(end + 1));
    } else if (!has_sign && end < text_.size() && text_[end] == '.' && digits(end + 1) > 0) {
      made = "0";
      append_decimals(made, end, digits(end + 1));
    } else {
      return std::nullopt;
    }
    return Find{at, end, std::move(made)};
  }
  void append_decimals(std::string& made, std::size_t& end, std::size_t count) const {
    made += "." + std::string(text_.substr(end + 1, count));
    end += 1 + count;
  }

  // The last box, and those before it with little between them.
  std::vector<Find> boxes() const {
    std::vector<std::size_t> closes(text_.size()),
        open_braces;  // 0: of no brace, or of one that stays open
    for (std::size_t at = 0; at < text_.size(); ++at) {
      if (text_[at] == '{') open_braces.push_back(at);
      if (text_[at] != '}' || open_braces.empty()) continue;
      closes[open_braces.back()] = at;
      open_braces.pop_back();
    }
    std::vector<Find> found;
    for (std::size_t at = text_.size();
         at > 0 && (at = text_.rfind("\\boxed", at - 1)) != text_.npos;) {
      const std::size_t open = skip_space(text_, at + 6);
      if (open >= text_.size() || text_[open] != '{') continue;
      const std::size_t close = closes[open];
      if (close == 0) continue;
      const std::string content(text_.substr(open + 1, close - open - 1));
      if (!found.empty()) {
        const std::string_view between = text_.substr(close + 1, found[0].begin - close - 1);
        const bool joins = between.find(" and ") != between.npos ||
                           between.find(" or ") != between.npos ||
                           between.find_first_of(",;") != between.npos;
        if (between.size() >= 10 &&
            !(between.size() < 70 && joins && content != last_box_of(found[0])))
          break;
        if (content != last_box_of(found[0])) found[0].formula = content + "," + found[0].formula;
        found[0].begin = at;
        continue;
      }
      found.push_back({at, close + 1, content});
    }
    return found;
  }
  static std::string last_box_of(const Find& find) {
    return find.formula.substr(0, find.formula.find(','));
  }

  // What stands behind " is" at most 100 characters behind `at`, directly.
  const Find* behind_is(std::size_t at) const {
    for (std::size_t is = at; (is = text_.find("is", is)) != text_.npos && is <= at + 101; ++is) {
      if (!is_space(text_[is - 1])) continue;
      std::size_t begin = is + 2;
      if (begin < text_.size() && text_[begin] == ':') ++begin;
      begin = skip_space(text_, begin);
      for (const std::vector<Find>* finds : {&formulas_, &numbers_})
        for (const Find& find : *finds)
          if (find.begin == begin || (find.begin == begin + 1 && finds == &numbers_)) return &find;
    }
    return nullptr;
  }
  bool is_hoped(const Find& find) const {
    std::size_t at = find.end;
    if (at < text_.size() && text_[at] == '.') ++at;
    return text_.substr(skip_space(text_, at)).starts_with("I hope");
  }

  // The first of `finds` at most 50 characters behind `at`; of numbers the last behind an equals
  // sign at most 100 behind it.
  const Find* near(std::size_t at, const std::vector<Find>& finds) const {
    const Find *first = nullptr, *equated = nullptr;
    for (const Find& find : finds) {
      if (find.begin < at) continue;
      const bool is_side =
          skip_space(text_, find.end) < text_.size() && text_[skip_space(text_, find.end)] == '=';
      if (&finds == &numbers_ && is_side) continue;
      if (first == nullptr && find.begin <= at + 51) first = &find;
      const std::size_t before = text_.find_last_not_of(kSpace, find.begin - 1);
      if (&finds == &numbers_ && before != text_.npos && text_[before] == '=' && before >= at &&
          before <= at + 100)
        equated = &find;
    }
    return equated != nullptr ? equated : first;
  }

  std::string_view text_;
  Delimiters delimiters_[4] = {
      {"$$", "$$", false}, {"\\[", "\\]", false}, {"$", "$", true}, {"\\(", "\\)", true}};
  std::vector<Find> formulas_, numbers_;  // in the text's order
};

std::string_view without_dollars(std::string_view formula) {
  const auto strip = [&](std::string_view sign) {
    if (formula.size() <= 2 * sign.size() || !formula.starts_with(sign) || !formula.ends_with(sign))
      return;
    formula = formula.substr(sign.size(), formula.size() - 2 * sign.size());
  };
  strip("$$");
  strip("$");
  return formula;
}

}  // namespace

bool is_math(std::string_view wanted) { return parse_math(without_dollars(wanted)).has_value(); }

MathVerdict verify_math(std::string_view text, std::string_view wanted) {
  const std::optional<MathExpression> right = parse_math(without_dollars(wanted));
  if (!right) return MathVerdict::unknown;
  for (const std::string& formula : Finder(text).in_turn())
    if (const auto said = parse_math(formula))
      return math_equal(*right, *said) ? MathVerdict::same : MathVerdict::different;
  return MathVerdict::unknown;
}

}  // namespace mt
