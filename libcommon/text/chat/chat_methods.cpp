// The methods of strings, lists and dicts that chat templates may call.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/chat/chat_arguments.h"
#include "text/chat/chat_format.h"
#include "text/chat/chat_names.h"
#include "text/chat/chat_strings.h"

namespace mt {
namespace {

using Arguments = const ChatArguments&;

template <std::string (*change)(std::string_view)>
ChatValue changed(ChatRun&, const ChatValue& self, Arguments arguments) {
  arguments.bind("method", {});
  return {change(*self.text()), self.is_safe()};
}

template <Side side>
ChatValue strip(ChatRun&, const ChatValue& self, Arguments arguments) {
  const auto given = arguments.bind("strip", {"chars"});
  std::optional<std::string_view> chars;
  if (given[0] && !given[0]->is_none()) chars = text_of(*given[0], "strip");
  return {std::string(strip_text(*self.text(), side, chars)), self.is_safe()};
}

ChatValue list_of(const std::vector<std::string_view>& parts, bool safe) {
  std::vector<ChatValue> items;
  for (const std::string_view part : parts) items.emplace_back(std::string(part), safe);
  return ChatValue::list(std::move(items));
}

template <auto cut>
ChatValue split(ChatRun& run, const ChatValue& self, Arguments arguments) {
  const auto given = arguments.bind("split", {"sep", "maxsplit"});
  const std::int64_t most = integer_of(given[1], -1, "split");
  const std::string& text = *self.text();
  run.charge(std::ssize(text) / 16);
  if (!given[0] || given[0]->is_none()) {
    if (cut == split_right && most >= 0)
      throw ChatFailure{"rsplit() at white space with a limit is not supported"};
    return list_of(split_space(text, most), self.is_safe());
  }
  const std::string& separator = text_of(*given[0], "split");
  if (separator.empty()) throw ChatFailure{"empty separator"};
  return list_of(cut(text, separator, most), self.is_safe());
}

ChatValue splitlines(ChatRun&, const ChatValue& self, Arguments arguments) {
  const auto given = arguments.bind("splitlines", {"keepends"});
  return list_of(split_lines(*self.text(), given[0] && python_truth(*given[0])), self.is_safe());
}

ChatValue partition(ChatRun&, const ChatValue& self, Arguments arguments) {
  const auto given = arguments.bind("partition", {"sep"}, 1);
  const std::string& separator = text_of(*given[0], "partition");
  if (separator.empty()) throw ChatFailure{"empty separator"};
  const std::string& text = *self.text();
  const std::size_t at = text.find(separator);
  if (at == text.npos) return ChatValue::tuple({self, "", ""});
  return ChatValue::tuple({text.substr(0, at), separator, text.substr(at + separator.size())});
}

// What start and end leave of a text; nothing where a start lies behind its end.
std::optional<std::string_view> window(const std::string& text,
                                       const std::optional<ChatValue>& start,
                                       const std::optional<ChatValue>& end) {
  if (!start && !end) return text;
  const std::vector<std::string_view> points = each_point(text);
  const std::int64_t length = std::ssize(points);
  const auto place = [&](const std::optional<ChatValue>& value, std::int64_t otherwise) {
    if (!value || value->is_none()) return otherwise;
    const std::int64_t given = integer_of(value, 0, "slice index");
    return std::max<std::int64_t>(given < 0 ? given + length : given, 0);
  };
  const std::int64_t first = place(start, 0), last = std::min(place(end, length), length);
  if (first > last) return {};
  const auto at = [&](std::int64_t i) {
    return i == length ? text.data() + text.size() : points[static_cast<std::size_t>(i)].data();
  };
  return std::string_view(at(first), static_cast<std::size_t>(at(last) - at(first)));
}

template <bool at_end>
ChatValue has_end(ChatRun&, const ChatValue& self, Arguments arguments) {
  const auto given =
      arguments.bind(at_end ? "endswith" : "startswith", {"part", "start", "end"}, 1);
  const auto in = window(*self.text(), given[1], given[2]);
  const bool many = given[0]->is_list() && given[0]->sequence()->kind == ChatValue::Sequence::tuple;
  const std::vector<ChatValue> parts = many ? *given[0]->items() : std::vector{*given[0]};
  return std::ranges::any_of(parts, [&](const ChatValue& part) {
    const std::string& text = text_of(part, at_end ? "endswith" : "startswith");
    return in && (at_end ? in->ends_with(text) : in->starts_with(text));
  });
}

ChatValue find(ChatRun&, const ChatValue& self, Arguments arguments) {
  const auto given = arguments.bind("find", {"sub", "start", "end"}, 1);
  const std::string& text = *self.text();
  const auto in = window(text, given[1], given[2]);
  const std::size_t at = in ? in->find(text_of(*given[0], "find")) : text.npos;
  if (at == text.npos) return -1;
  return count_points(std::string_view(text.data(), in->data() + at));
}

ChatValue count(ChatRun&, const ChatValue& self, Arguments arguments) {
  const auto given = arguments.bind("count", {"sub", "start", "end"}, 1);
  const auto in = window(*self.text(), given[1], given[2]);
  return in ? count_text(*in, text_of(*given[0], "count")) : 0;
}

ChatValue replace(ChatRun&, const ChatValue& self, Arguments arguments) {
  const auto given = arguments.bind("replace", {"old", "new", "count"}, 2);
  const auto part = [&](const ChatValue& value) {
    const std::string& text = text_of(value, "replace");
    return self.is_safe() && !value.is_safe() ? escape_html(text) : text;
  };
  return {replace_text(*self.text(), part(*given[0]), part(*given[1]),
                       integer_of(given[2], -1, "replace")),
          self.is_safe()};
}

ChatValue join(ChatRun& run, const ChatValue& self, Arguments arguments) {
  const auto given = arguments.bind("join", {"iterable"}, 1);
  std::string out;
  const std::vector<ChatValue> items = python_items(*given[0]);
  run.charge(std::ssize(items));
  for (std::size_t i = 0; i < items.size() && out.size() <= ChatRun::kOutput; ++i) {
    if (i > 0) out += *self.text();
    const std::string& text = text_of(items[i], concat("join: sequence item ", i));
    out += self.is_safe() && !items[i].is_safe() ? escape_html(text) : text;
  }
  return {std::move(out), self.is_safe()};
}

ChatValue isdigit(ChatRun&, const ChatValue& self, Arguments arguments) {
  arguments.bind("isdigit", {});
  return is_digits(*self.text());
}

ChatValue format(ChatRun& run, const ChatValue& self, Arguments arguments) {
  if (self.is_safe()) throw ChatFailure{"format() of a safe string is not supported"};
  return python_format(run, *self.text(), arguments);
}

ChatValue dict_get(ChatRun& run, const ChatValue& self, Arguments arguments) {
  const auto given = arguments.bind("get", {"key", "default"}, 1);
  check_hashable(*given[0]);
  run.charge(std::ssize(*self.pairs()) / 16);
  const auto found = python_item(self, *given[0]);
  return found ? *found : given[1].value_or(ChatValue());
}

template <ChatValue::Sequence kind>
ChatValue view(ChatRun& run, const ChatValue& self, Arguments arguments) {
  arguments.bind("items", {});
  run.charge(std::ssize(*self.pairs()) / 4);
  std::vector<ChatValue> items;
  for (const auto& [key, value] : *self.pairs())
    items.push_back(kind == ChatValue::Sequence::keys     ? key
                    : kind == ChatValue::Sequence::values ? value
                                                          : ChatValue::tuple({key, value}));
  return ChatValue::list(std::move(items), kind);
}

ChatValue list_count(ChatRun& run, const ChatValue& self, Arguments arguments) {
  const auto given = arguments.bind("count", {"value"}, 1);
  run.charge(self.weight() / 16);
  return std::ranges::count_if(
      *self.items(), [&](const ChatValue& item) { return python_equal(item, *given[0]); });
}

ChatValue list_index(ChatRun& run, const ChatValue& self, Arguments arguments) {
  const auto given = arguments.bind("index", {"value"}, 1);
  run.charge(self.weight() / 16);
  const auto found = std::ranges::find_if(
      *self.items(), [&](const ChatValue& item) { return python_equal(item, *given[0]); });
  if (found == self.items()->end()) throw ChatFailure{python_repr(*given[0]) + " is not in list"};
  return found - self.items()->begin();
}

constexpr auto kOfStrings = std::to_array<ChatMethod>({
    {"capitalize", changed<capitalize_text>},
    {"count", count},
    {"endswith", has_end<true>},
    {"find", find},
    {"format", format},
    {"isdigit", isdigit},
    {"join", join},
    {"lower", changed<lower_text>},
    {"lstrip", strip<Side::left>},
    {"partition", partition},
    {"replace", replace},
    {"rsplit", split<split_right>},
    {"rstrip", strip<Side::right>},
    {"split", split<split_text>},
    {"splitlines", splitlines},
    {"startswith", has_end<false>},
    {"strip", strip<Side::both>},
    {"title", changed<title_text>},
    {"upper", changed<upper_text>},
});

constexpr auto kOfDicts = std::to_array<ChatMethod>({
    {"get", dict_get},
    {"items", view<ChatValue::Sequence::items>},
    {"keys", view<ChatValue::Sequence::keys>},
    {"values", view<ChatValue::Sequence::values>},
});

constexpr auto kOfLists = std::to_array<ChatMethod>({
    {"count", list_count},
    {"index", list_index},
});

constexpr std::array<std::string_view, 5> kChangingDicts = {"clear", "pop", "popitem", "setdefault",
                                                            "update"};
constexpr std::array<std::string_view, 8> kChangingLists = {"append", "clear",  "extend",  "insert",
                                                            "pop",    "remove", "reverse", "sort"};

}  // namespace

const ChatMethod* find_chat_method(const ChatValue& self, std::string_view name) {
  const auto find_in = [&](const auto& methods) {
    const auto found = std::ranges::find(methods, name, &ChatMethod::name);
    return found == methods.end() ? nullptr : &*found;
  };
  if (self.is_text()) return find_in(kOfStrings);
  if (self.is_list() && self.sequence()->kind <= ChatValue::Sequence::tuple)
    return find_in(kOfLists);
  return self.is_dict() ? find_in(kOfDicts) : nullptr;
}

bool is_changing_method(const ChatValue& self, std::string_view name) {
  const auto has = [&](const auto& names) { return std::ranges::find(names, name) != names.end(); };
  if (self.is_dict()) return has(kChangingDicts);
  return self.is_list() && self.sequence()->kind == ChatValue::Sequence::list &&
         has(kChangingLists);
}

bool is_chat_method(std::string_view name) {
  return name == "cycle" ||
         std::ranges::find(kOfStrings, name, &ChatMethod::name) != kOfStrings.end() ||
         std::ranges::find(kOfDicts, name, &ChatMethod::name) != kOfDicts.end() ||
         std::ranges::find(kOfLists, name, &ChatMethod::name) != kOfLists.end() ||
         std::ranges::find(kChangingDicts, name) != kChangingDicts.end() ||
         std::ranges::find(kChangingLists, name) != kChangingLists.end();
}

}  // namespace mt
