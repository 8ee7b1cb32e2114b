#include "post/data/judged_lines.h"

#include <algorithm>

#include "base/error.h"
#include "base/fits_float.h"
#include "text/chat/chat_python.h"

namespace mt {
namespace {

const ChatValue& member(const ChatValue& line, const char* key, std::string_view place) {
  const ChatValue* const value = line.find(key);
  if (value == nullptr) fail(Exit::bad_data, place, ": no key ", key);
  return *value;
}

double number(const ChatValue& value, const char* key, std::string_view place) {
  if (value.integer() != nullptr) return static_cast<double>(*value.integer());
  if (value.real() == nullptr || !fits_float(*value.real()))
    fail(Exit::bad_data, place, ": ", key, ": expected a number");
  return *value.real();
}

// Two sides of a line, without what they begin with alike, and that.
struct Sides {
  ChatValue prompt, chosen, rejected;
};

// What both begin with, but for a space that texts go on with.
std::size_t common_text(std::string_view a, std::string_view b) {
  auto common = static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  while (common > 0 && common < a.size() && (a[common] & 0xC0) == 0x80) --common;  // a character
  return common > 0 && a[common - 1] == ' ' ? common - 1 : common;
}

Sides without_prompt(const ChatValue& chosen, const ChatValue& rejected, std::string_view place) {
  if (chosen.text() != nullptr && rejected.text() != nullptr) {
    const std::string_view a = *chosen.text(), b = *rejected.text();
    const std::size_t common = common_text(a, b);
    return {a.substr(0, common), a.substr(common), b.substr(common)};
  }
  const auto *a = chosen.items(), *b = rejected.items();
  if (a == nullptr || b == nullptr)
    fail(Exit::bad_data, place,
         ": chosen and rejected: expected two strings, or two lists of messages");
  const auto common = std::ranges::mismatch(*a, *b, python_equal).in1;
  const auto rest = common - a->begin();
  return {ChatValue::list({a->begin(), common}), ChatValue::list({common, a->end()}),
          ChatValue::list({b->begin() + rest, b->end()})};
}

Sides sides_of_ranks(const ChatValue& line, std::string_view place) {
  const auto* const both = member(line, "completions", place).items();
  if (both == nullptr || both->size() != 2)
    fail(Exit::bad_data, place, ": completions: expected a list of two");
  const double first = number(member((*both)[0], "rank", place), "rank", place),
               second = number(member((*both)[1], "rank", place), "rank", place);
  if (first == second) fail(Exit::bad_data, place, ": both completions have rank ", first);
  const ChatValue& a = member((*both)[0], "completion", place);
  const ChatValue& b = member((*both)[1], "completion", place);
  return {member(line, "context", place), first < second ? a : b, first < second ? b : a};
}

bool is_empty(const ChatValue& side) {
  if (side.text() != nullptr) return side.text()->empty();
  return side.items() != nullptr && side.items()->empty();
}

// One of the sides behind the prompt, with all else that the line has of it.
TrainingLine side_of(const ChatValue& line, const ChatValue& prompt, const ChatValue& completion,
                     const char* key, std::string_view place) {
  if (is_empty(completion))
    fail(Exit::bad_data, place, ": ", key, ": says nothing beyond the prompt");
  if (prompt.text() != nullptr && completion.text() == nullptr)
    fail(Exit::bad_data, place, ": ", key, ": expected a string, as the prompt is one");
  if (prompt.is_list() && !completion.is_list())
    fail(Exit::bad_data, place, ": ", key, ": expected a list of messages, as the prompt is one");
  ChatValue one = line;
  one.set("prompt", prompt);
  one.set("completion", completion);
  return read_line(one, LineKind::prompt_completion, {}, place);
}

}  // namespace

std::vector<JudgedText> read_judged_line(const ChatValue& line, Judged judged,
                                         std::string_view place) {
  if (!line.is_dict()) fail(Exit::bad_data, place, ": expected a JSON object");
  if (judged == Judged::single && line.find("label") != nullptr) {
    const bool* const wanted = member(line, "label", place).boolean();
    if (wanted == nullptr) fail(Exit::bad_data, place, ": label: expected true or false");
    return {{side_of(line, member(line, "prompt", place), member(line, "completion", place),
                     "completion", place),
             *wanted ? 1.0 : 0.0}};
  }
  Sides sides;
  if (line.find("completions") != nullptr) {
    sides = sides_of_ranks(line, place);
  } else {
    const ChatValue &chosen = member(line, "chosen", place),
                    &rejected = member(line, "rejected", place);
    sides = line.has("prompt") ? Sides{*line.find("prompt"), chosen, rejected}
                               : without_prompt(chosen, rejected, place);
  }
  const double margin = line.has("margin") ? number(*line.find("margin"), "margin", place) : 0;
  return {{side_of(line, sides.prompt, sides.chosen, "chosen", place),
           judged == Judged::pairs ? margin : 1.0},
          {side_of(line, sides.prompt, sides.rejected, "rejected", place), 0}};
}

}  // namespace mt
