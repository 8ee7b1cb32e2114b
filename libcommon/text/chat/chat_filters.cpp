// The filters of chat templates that make a value of one value.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "text/chat/chat_arguments.h"
#include "text/chat/chat_names.h"
#include "text/chat/chat_sequence_filters.h"
#include "text/chat/chat_strings.h"
#include "text/chat/chat_template.h"
#include "text/python_regex.h"

namespace mt {
namespace {

using Arguments = const ChatArguments&;

// What markupsafe.soft_str() makes of a value: its text, and whether that stays safe.
struct SoftText {
  std::string text;
  bool safe;
};
SoftText soft(const ChatValue& value) { return {python_text(value), value.is_safe()}; }

template <std::string (*change)(std::string_view)>
ChatValue changed(ChatRun&, const ChatValue& value, Arguments arguments) {
  arguments.bind("filter", {});
  const SoftText from = soft(value);
  return {change(from.text), from.safe};
}

ChatValue trim(ChatRun&, const ChatValue& value, Arguments arguments) {
  const auto given = arguments.bind("trim", {"chars"});
  const SoftText from = soft(value);
  std::optional<std::string_view> chars;
  if (given[0] && !given[0]->is_none()) chars = text_of(*given[0], "trim");
  return {std::string(strip_text(from.text, Side::both, chars)), from.safe};
}

// "an-other (word": every word begins with a capital.
std::string titled(std::string_view text) {
  std::string out;
  bool first = true;
  for (const std::string_view point : each_point(text)) {
    out += first ? upper_text(point) : lower_text(point);
    first = std::string_view("-({[<").find(point) != std::string_view::npos ||
            strip_text(point, Side::both).empty();
  }
  return out;
}

ChatValue title(ChatRun&, const ChatValue& value, Arguments arguments) {
  arguments.bind("title", {});
  return titled(python_text(value));
}

ChatValue as_text(ChatRun&, const ChatValue& value, Arguments arguments) {
  arguments.bind("string", {});
  return {python_text(value), value.is_safe()};
}

ChatValue safe(ChatRun&, const ChatValue& value, Arguments arguments) {
  arguments.bind("safe", {});
  return {python_text(value), true};
}

ChatValue escape(ChatRun&, const ChatValue& value, Arguments arguments) {
  arguments.bind("escape", {});
  return {value.is_safe() ? *value.text() : escape_html(python_text(value)), true};
}

ChatValue default_of(ChatRun&, const ChatValue& value, Arguments arguments) {
  const auto given = arguments.bind("default", {"default_value", "boolean"});
  const bool falsy = given[1] && python_truth(*given[1]) && !python_truth(value);
  return value.is_undefined() || falsy ? given[0].value_or("") : value;
}

ChatValue replace(ChatRun&, const ChatValue& value, Arguments arguments) {
  const auto given = arguments.bind("replace", {"old", "new", "count"}, 2);
  const std::int64_t count =
      !given[2] || given[2]->is_none() ? -1 : integer_of(given[2], -1, "replace");
  return replace_text(python_text(value), python_text(*given[0]), python_text(*given[1]), count);
}

ChatValue indent(ChatRun&, const ChatValue& value, Arguments arguments) {
  const auto given = arguments.bind("indent", {"width", "first", "blank"});
  const std::string by = given[0] && given[0]->is_text()
                             ? *given[0]->text()
                             : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(
                                               integer_of(given[0], 4, "indent"), 0, 1 << 20)),
                                           ' ');
  const auto asked = [&](std::size_t i) { return given[i] && python_truth(*given[i]); };
  const std::string text = text_of(value, "indent") + "\n";
  std::string out;
  bool first = true;
  for (const std::string_view line : split_lines(text, false)) {
    if (!first) out += '\n';
    if (first ? asked(1) : !line.empty() || asked(2)) out += by;
    out += line;
    first = false;
    if (out.size() > ChatRun::kOutput) break;
  }
  return {std::move(out), value.is_safe()};
}

ChatValue to_int(ChatRun&, const ChatValue& value, Arguments arguments) {
  const auto given = arguments.bind("int", {"default", "base"});
  const ChatValue otherwise = given[0].value_or(0);
  if (value.is_undefined()) throw ChatFailure{*value.undefined_message()};
  if (const std::string* const text = value.text()) {
    if (const auto number = python_parse_int(*text, integer_of(given[1], 10, "int")))
      return *number;
    const auto real = python_parse_float(*text);
    return real && std::isfinite(*real) ? ChatValue(python_int_of(*real)) : otherwise;
  }
  if (const auto index = python_index(value)) return *index;
  const double* const real = value.real();
  return real != nullptr && std::isfinite(*real) ? ChatValue(python_int_of(*real)) : otherwise;
}

ChatValue to_float(ChatRun&, const ChatValue& value, Arguments arguments) {
  const auto given = arguments.bind("float", {"default"});
  if (value.is_undefined()) throw ChatFailure{*value.undefined_message()};
  const auto number = value.is_text() ? python_parse_float(*value.text()) : python_number(value);
  return number ? ChatValue(*number) : given[0].value_or(0.0);
}

ChatValue absolute(ChatRun&, const ChatValue& value, Arguments arguments) {
  arguments.bind("abs", {});
  if (const auto index = python_index(value))
    return *index < 0 ? python_negative(*index) : ChatValue(*index);
  if (const double* const number = value.real()) return std::fabs(*number);
  if (value.is_undefined()) throw ChatFailure{*value.undefined_message()};
  throw ChatFailure{"bad operand type for abs(): '" + python_type(value) + "'"};
}

ChatValue rounded(ChatRun&, const ChatValue& value, Arguments arguments) {
  const auto given = arguments.bind("round", {"precision", "method"});
  const std::int64_t precision = integer_of(given[0], 0, "round");
  const std::string method = given[1] ? python_text(*given[1]) : "common";
  if (method != "common" && method != "ceil" && method != "floor")
    throw ChatFailure{"method must be common, ceil or floor"};
  const auto number = python_number(value);
  if (!number) throw ChatFailure{"type " + python_type(value) + " cannot be rounded"};
  if (precision < 0 || precision > 300) throw ChatFailure{"round() to other than 0 to 300 digits"};
  if (method != "common") {
    const double power = std::pow(10.0, static_cast<double>(precision)), scaled = *number * power;
    const double whole = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
    return (whole + 0.0) / power;  // Python's is an integer, which has no -0.0
  }
  if (const auto index = python_index(value)) return *index;
  std::array<char, 640> digits;
  std::snprintf(digits.data(), digits.size(), "%.*f", static_cast<int>(precision), *number);
  return std::strtod(digits.data(), nullptr);
}

// What Python prints, as the value that it was; a value that is no text stays.
ChatValue literal(ChatRun& run, const ChatValue& value, Arguments arguments) {
  arguments.bind("literal", {});
  if (!value.is_text()) return value;
  run.charge(std::ssize(*value.text()) / 16);
  try {
    return chat_constant(*value.text(), "literal");
  } catch (const Error& error) {
    throw ChatFailure{error.what()};
  }
}

ChatValue regex_replace(ChatRun& run, const ChatValue& value, Arguments arguments) {
  const auto given = arguments.bind("regex_replace", {"pattern", "repl", "count"}, 2);
  const std::string& text = text_of(value, "regex_replace");
  run.charge(std::ssize(text) / 16);
  try {
    const PythonRegex regex(text_of(*given[0], "regex_replace"));
    return regex.replace(text, text_of(*given[1], "regex_replace"),
                         integer_of(given[2], 0, "regex_replace"));
  } catch (const Error& error) {
    throw ChatFailure{error.what()};
  }
}

ChatValue to_json(ChatRun&, const ChatValue& value, Arguments arguments) {
  const auto given =
      arguments.bind("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonDump dump;
  dump.ensure_ascii = given[0] && python_truth(*given[0]);
  dump.sort_keys = given[3] && python_truth(*given[3]);
  if (given[1] && !given[1]->is_none()) {
    if (given[1]->is_text())
      dump.indent_by = *given[1]->text();
    else
      dump.indent =
          static_cast<int>(std::clamp<std::int64_t>(integer_of(given[1], 0, "indent"), 0, 1 << 20));
    dump.item = ",";
  }
  if (given[2] && !given[2]->is_none()) {
    const std::vector<ChatValue> both = python_items(*given[2]);
    if (both.size() != 2) throw ChatFailure{"separators: expected two"};
    dump.item = text_of(both[0], "separators");
    dump.key = text_of(both[1], "separators");
  }
  return chat_value_json(value, dump);
}

constexpr auto kFilters = std::to_array<ChatFilter>({
    {"abs", absolute},
    {"capitalize", changed<capitalize_text>},
    {"count", filter_length},
    {"d", default_of},
    {"default", default_of},
    {"dictsort", filter_dictsort},
    {"e", escape},
    {"escape", escape},
    {"first", filter_first},
    {"float", to_float},
    {"indent", indent},
    {"int", to_int},
    {"items", filter_items},
    {"join", filter_join},
    {"last", filter_last},
    {"length", filter_length},
    {"list", filter_list},
    {"lower", changed<lower_text>},
    {"map", filter_map},
    {"max", filter_max},
    {"min", filter_min},
    {"reject", filter_reject},
    {"rejectattr", filter_rejectattr},
    {"replace", replace},
    {"reverse", filter_reverse},
    {"round", rounded},
    {"safe", safe},
    {"select", filter_select},
    {"selectattr", filter_selectattr},
    {"sort", filter_sort},
    {"string", as_text},
    {"sum", filter_sum},
    {"title", title},
    {"tojson", to_json},
    {"trim", trim},
    {"unique", filter_unique},
    {"upper", changed<upper_text>},
});

}  // namespace

const ChatFilter* find_chat_filter(std::string_view name, ChatDialect dialect) {
  static constexpr ChatFilter kOfTasks[] = {{"literal", literal}, {"regex_replace", regex_replace}};
  if (dialect == ChatDialect::tasks)
    for (const ChatFilter& filter : kOfTasks)
      if (filter.name == name) return &filter;
  const auto found = std::ranges::find(kFilters, name, &ChatFilter::name);
  return found == kFilters.end() ? nullptr : &*found;
}

std::int64_t integer_of(const std::optional<ChatValue>& value, std::int64_t otherwise,
                        std::string_view what) {
  if (!value) return otherwise;
  if (const auto index = python_index(*value)) return *index;
  throw ChatFailure{
      concat(what, ": '", python_type(*value), "' object cannot be interpreted as an integer")};
}

const std::string& text_of(const ChatValue& value, std::string_view what) {
  if (const std::string* const text = value.text()) return *text;
  if (value.is_undefined()) throw ChatFailure{*value.undefined_message()};
  throw ChatFailure{concat(what, ": expected a str, not ", python_type(value))};
}

ChatValue attribute_of(ChatRun& run, ChatValue item, const ChatValue& name) {
  if (!name.is_text()) return name.is_none() ? item : chat_item(run, item, name);
  for (const std::string_view part : split_text(*name.text(), ".", -1)) {
    const auto number = is_digits(part) ? python_parse_int(part, 10) : std::nullopt;
    item = chat_item(run, item, number ? ChatValue(*number) : ChatValue(part));
  }
  return item;
}

}  // namespace mt
