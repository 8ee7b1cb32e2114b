#include "eval/tasks/response_filters.h"

#include <algorithm>

#include "base/error.h"
#include "text/chat/chat_python.h"
#include "text/chat/chat_strings.h"

namespace mt {

static std::string matched(const FilterStep& step, std::string_view text) {
  const std::vector<PythonRegex::Match> matches = step.regex.front().find_all(text);
  const auto count = std::ssize(matches);
  const std::int64_t at = step.select < 0 ? step.select + count : step.select;
  if (at < 0 || at >= count) {
    if (count == 0) return step.fallback;
    fail(Exit::bad_data, "filter_list: group_select ", step.select, ": there are ", count,
         " matches");
  }
  const PythonRegex::Match& match = matches[static_cast<std::size_t>(at)];
  std::string_view found = text.substr(match.begin, match.end - match.begin);
  if (match.groups.size() == 1) found = match.groups.front();
  if (match.groups.size() > 1) {
    const auto group = std::ranges::find_if(match.groups, [](auto g) { return !g.empty(); });
    found = group == match.groups.end() ? std::string_view(step.fallback) : *group;
  }
  return std::string(strip_text(found, Side::both));
}

static ChatValue tags_of(const FilterStep& step, std::string_view text) {
  ChatValue tags = ChatValue::list({});
  for (const PythonRegex::Match& match : step.regex.front().find_all(text))
    tags.push_back(match.groups[1]);
  if (tags.items()->empty()) tags.push_back(step.fallback);
  return tags;
}

static std::string most_common(const std::vector<ChatValue>& texts) {
  const auto count = [&](const ChatValue& text) {
    return std::ranges::count_if(texts, [&](const ChatValue& x) { return python_equal(x, text); });
  };
  return python_text(*std::ranges::max_element(texts, {}, count));  // the first of them
}

ChatValue filtered(const EvalFilter& filter, std::span<const std::string> texts) {
  ChatValue value = ChatValue::list({texts.begin(), texts.end()});
  for (const FilterStep& step : filter.steps) {
    if (!value.is_list() || value.items()->empty())
      fail(Exit::bad_data, "filter_list: ", filter.name, ": a step behind take_first");
    std::vector<ChatValue> items = *value.items();
    const auto each = [&](const auto& change) {
      for (ChatValue& item : items) item = change(python_text(item));
    };
    using Kind = FilterStep::Kind;
    switch (step.kind) {
      case Kind::regex:
        each([&](const std::string& text) { return matched(step, text); });
        break;
      case Kind::regex_pos:
        each([&](const std::string& text) { return tags_of(step, text); });
        break;
      case Kind::remove_whitespace:
        each([](const std::string& text) { return std::string(strip_text(text, Side::both)); });
        break;
      case Kind::lowercase:
        each([](const std::string& text) { return lower_text(text); });
        break;
      case Kind::uppercase:
        each([](const std::string& text) { return upper_text(text); });
        break;
      case Kind::take_first_k:
        items.resize(std::min(items.size(), static_cast<std::size_t>(step.select)));
        break;
      case Kind::majority_vote:
        items = {most_common(items)};
        break;
      case Kind::take_first:
        break;
    }
    value = step.kind == Kind::take_first ? items.front() : ChatValue::list(std::move(items));
  }
  return value;
}

}  // namespace mt
