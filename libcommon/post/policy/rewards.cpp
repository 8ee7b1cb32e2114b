#include "post/policy/rewards.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/utf8.h"
#include "post/policy/judging_server.h"
#include "post/policy/math_answer.h"
#include "post/policy/stated_answer.h"
#include "text/python_regex.h"

namespace mt {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const std::size_t first = text.find_first_not_of(kSpace);
  return first == text.npos ? std::string_view()
                            : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// Reads digits, with commas before groups of three and decimals, from `at` on.
std::optional<double> decimal_at(std::string_view text, std::size_t& at) {
  std::string digits;
  const auto take = [&] {
    while (at < text.size() && is_digit(text[at])) digits += text[at++];
  };
  const auto are_digits = [&](std::size_t first, std::size_t count) {
    return first + count <= text.size() &&
           std::ranges::all_of(text.substr(first, count), is_digit) &&
           (first + count == text.size() || !is_digit(text[first + count]));
  };
  take();
  while (!digits.empty() && at < text.size() && text[at] == ',' && are_digits(at + 1, 3)) {
    ++at;
    take();
  }
  if (at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1])) {
    digits += text[at++];
    take();
  }
  double number = 0;
  if (digits.empty() ||
      std::from_chars(digits.data(), digits.data() + digits.size(), number).ec != std::errc())
    return std::nullopt;
  return number;
}

std::optional<double> last_number(std::string_view text) {
  std::optional<double> last;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t first = at;
    std::optional<double> number = decimal_at(text, at);
    if (!number) {
      ++at;
      continue;
    }
    std::size_t after = at + 1;
    if (at < text.size() && text[at] == '/') {
      if (const auto below = decimal_at(text, after); below && *below != 0) {
        *number /= *below;
        at = after;
      }
    }
    const bool is_negative =
        first > 0 && text[first - 1] == '-' &&
        (first == 1 || std::string_view(" \t\n(=:$").find(text[first - 2]) != text.npos);
    last = is_negative ? -*number : *number;
  }
  return last;
}

// What an expression says; NaN where that takes more steps than it has.
template <class Body>
double by_regex(const Body& says) {
  try {
    return says() ? 1 : 0;
  } catch (const Error& error) {
    if (error.code() != Exit::bad_data) throw;
    return NAN;
  }
}

double exact(std::string_view text, std::string_view answer) {
  return stripped(text) == stripped(answer) ? 1 : 0;
}

double number(std::string_view text, std::string_view answer) {
  const auto said = last_number(text), wanted = last_number(answer);
  return said && wanted && std::round(*said * 1e6) == std::round(*wanted * 1e6) ? 1 : 0;
}

double math(std::string_view text, std::string_view answer) {
  if (!is_math(answer)) return NAN;
  return verify_math(text, answer) == MathVerdict::same ? 1 : 0;
}

double dapo_math(std::string_view text, std::string_view answer) {
  return by_regex([&] { return states_answer(text, stripped(answer)); });
}

double mc(std::string_view text, std::string_view answer) {
  return by_regex([&] { return states_letter(text, stripped(answer)); });
}

double format(std::string_view text, std::string_view) {
  constexpr std::string_view kBegin = "<think>", kMiddle = "</think>\n<answer>", kEnd = "</answer>";
  const auto count = [&](std::string_view tag) {
    int times = 0;
    for (std::size_t at = 0; (at = text.find(tag, at)) != text.npos; at += tag.size()) ++times;
    return times;
  };
  const std::size_t middle = text.find(kMiddle);
  const bool is_so = text.starts_with(kBegin) && text.ends_with(kEnd) && middle != text.npos &&
                     middle + kMiddle.size() + kEnd.size() <= text.size() && count(kBegin) == 1 &&
                     count("</think>") == 1 && count("<answer>") == 1 && count(kEnd) == 1;
  return is_so ? 1 : 0;
}

double length(std::string_view text, double wanted) {
  const auto is_first = [](char c) { return (c & 0xC0) != 0x80; };  // byte of a character
  return -std::abs(static_cast<double>(std::ranges::count_if(text, is_first)) - wanted);
}

double matches(std::string_view text, const PythonRegex& regex) {
  return by_regex([&] { return !regex.find_all(replace_invalid_utf8(text), 1).empty(); });
}

struct Known {
  const char* name;
  double (*judge)(std::string_view text, std::string_view answer);  // null: its argument does
  bool needs_answer;
  const char* argument;  // what it is; null: there is none
};
constexpr Known kKnown[] = {{"exact", exact, true, nullptr},
                            {"number", number, true, nullptr},
                            {"math", math, true, nullptr},
                            {"dapo-math", dapo_math, true, nullptr},
                            {"mc", mc, true, nullptr},
                            {"format", format, false, nullptr},
                            {"length", nullptr, false, "a number of characters"},
                            {"regex", nullptr, false, "an expression"},
                            {"cmd", nullptr, false, "a program"},
                            {"judge", nullptr, false, "a URL"},
                            {"rm", nullptr, false, "a reward model"}};

const Known* known(std::string_view name) {
  const auto* const found = std::ranges::find(kKnown, name, &Known::name);
  return found == std::end(kKnown) ? nullptr : found;
}

double weight_of(const std::string& word, std::string_view number) {
  double weight = 0;
  const char* const last = number.data() + number.size();
  const auto [end, error] = std::from_chars(number.data(), last, weight);
  if (error != std::errc() || end != last || !std::isfinite(weight))
    fail(Exit::usage, "--reward ", word, ": expected a number as weight");
  return weight;
}

double length_of(const std::string& word, std::string_view digits) {
  std::uint32_t number = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, number);
  if (error != std::errc() || end != last)
    fail(Exit::usage, "--reward ", word, ": expected a number of characters behind a colon");
  return number;
}

RewardRule rule_of(const std::string& word) {
  const std::size_t end = std::min(word.find_first_of("=:"), word.size());
  const std::size_t colon = std::min(word.find(':', end), word.size());
  RewardRule rule{.name = word.substr(0, end)};
  const Known* const one = known(rule.name);
  if (one == nullptr) {
    std::string names;
    for (const Known& each : kKnown)
      names += concat(names.empty() ? "" : ", ", each.name, each.argument != nullptr ? ":…" : "");
    fail(Exit::usage, "--reward ", rule.name, ": expected one of ", names);
  }
  if (colon > end)
    rule.weight = weight_of(word, std::string_view(word).substr(end + 1, colon - end - 1));
  rule.argument = colon < word.size() ? word.substr(colon + 1) : "";
  if (one->argument != nullptr && rule.argument.empty())
    fail(Exit::usage, "--reward ", word, ": expected ", one->argument, " behind a colon");
  if (one->argument == nullptr && colon < word.size())
    fail(Exit::usage, "--reward ", word, ": ", one->name, " takes nothing behind a colon");
  if (rule.is_server()) judging_place(rule.argument);  // which says what is wrong with it
  if (rule.name == "length") rule.length = length_of(word, rule.argument);
  if (rule.name != "regex") return rule;
  try {
    rule.regex = std::make_shared<const PythonRegex>(rule.argument);
  } catch (const Error& error) {
    fail(Exit::usage, "--reward regex: ", error.what());
  }
  return rule;
}

}  // namespace

std::vector<RewardRule> reward_rules(const std::vector<std::string>& words) {
  std::vector<RewardRule> rules;
  for (const std::string& word : words) {
    RewardRule rule = rule_of(word);
    const auto same = std::ranges::count(rules, rule.name, &RewardRule::name);
    rule.label = same == 0 ? rule.name : concat(rule.name, "_", same + 1);
    rules.push_back(std::move(rule));
  }
  return rules;
}

bool needs_answer(const std::vector<RewardRule>& rules) {
  return std::ranges::any_of(rules,
                             [](const RewardRule& rule) { return known(rule.name)->needs_answer; });
}

double said_by(const RewardRule& rule, std::string_view text, std::string_view answer) {
  if (rule.regex) return matches(text, *rule.regex);
  if (rule.name == "length") return length(text, rule.length);
  return known(rule.name)->judge(text, answer);
}

double reward_of(const std::vector<RewardRule>& rules, std::string_view text,
                 std::string_view answer) {
  double sum = 0;
  for (const RewardRule& rule : rules)
    if (!rule.asks()) sum += rule.weight * said_by(rule, text, answer);
  return sum;
}

}  // namespace mt
