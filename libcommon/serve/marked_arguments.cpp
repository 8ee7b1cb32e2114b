#include "serve/marked_arguments.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json_object.h"
#include "text/grammar/json_schema.h"

namespace mt {
namespace {

using simdjson::dom::element;
using Node = ByteGrammar::Node;

// What stands in front of an argument's name, and of its value; the mark behind that, perhaps on a
// line of its own; and what stands between two arguments.
struct Marks {
  std::string_view name, value, end;
  bool own_line;
};

Marks marks_of(ToolForm form) {
  if (form == ToolForm::qwen_coder) return {"<parameter=", ">\n", "</parameter>", true};
  return {"<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>", false};
}

// What ends a call for who reads it, wherever it stands.
constexpr std::string_view kCallEnd = "</tool_call>";

// Any text, and the mark behind it.  In the text neither that mark stands, on a line of its own or
// not, nor what ends a call.  Each node knows with how much of either the text ends, and whether
// that began a line.
Node add_text(ByteGrammar& grammar, Node from, const Marks& marks) {
  const std::string_view ends[] = {marks.end, kCallEnd};
  std::map<std::pair<std::string_view, bool>, Node> nodes;
  for (const std::string_view mark : ends)
    for (std::size_t size = 0; size < mark.size(); ++size)
      for (const bool on_own_line : {!marks.own_line, true})
        if (const auto [at, is_new] = nodes.try_emplace({mark.substr(0, size), on_own_line});
            is_new)
          at->second = grammar.add();
  const Node end = grammar.add();
  const auto at = [&](std::string_view begun, bool on_own_line) {
    return nodes.at({begun, on_own_line || !marks.own_line});
  };
  grammar.link(from, at("", false));
  for (const auto& [key, here] : nodes) {
    const auto next = [&, begun = key.first, on_own_line = key.second](char c) {
      const std::string more = concat(begun, c);  // -1: one of the marks, where none may be
      if (more == kCallEnd) return Node(-1);
      if (more == marks.end) return on_own_line ? end : Node(-1);
      for (const std::string_view mark : ends)
        if (mark.starts_with(more)) return at(more, on_own_line);
      if (c == '<') return at("<", false);
      return at("", c == '\n');
    };
    for (const char c : {'\t', '\n', '\r'}) {
      const auto byte = static_cast<std::uint8_t>(c);
      grammar.bytes(here, byte, byte, next(c));
    }
    for (char low = ' '; low <= '~';) {
      char high = low;
      while (high < '~' && next(static_cast<char>(high + 1)) == next(low)) ++high;
      if (next(low) >= 0)
        grammar.bytes(here, static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high),
                      next(low));
      low = static_cast<char>(high + 1);
    }
    grammar.points(here, 0x80, 0x10FFFF, at("", false));
  }
  return end;
}

// The texts that a schema allows; none: it allows any.
std::set<std::string> texts_of(const std::string& name, element schema) {
  for (const char* const key : {"pattern", "format", "minLength", "maxLength"})
    if (schema[key].error() == simdjson::SUCCESS)
      fail(Exit::bad_data, name, ": ", key,
           ": a text in calls of the model's form may have enum or const alone");
  std::set<std::string> texts;
  const auto add = [&](element one) {
    std::string_view text;
    if (one.get(text) != simdjson::SUCCESS)
      fail(Exit::bad_data, name, ": expected texts in enum and const, as its type is string");
    texts.emplace(text);
  };
  element single;
  simdjson::dom::array list;
  if (schema["const"].get(single) == simdjson::SUCCESS)
    add(single);
  else if (schema["enum"].get(list) == simdjson::SUCCESS)
    for (const element one : list) add(one);
  return texts;
}

Node add_value(ByteGrammar& grammar, Node from, const Marks& marks, const std::string& name,
               element all, element schema) {
  std::string_view type;
  if (schema.is_object() && schema["type"].get(type) == simdjson::SUCCESS && type == "string") {
    const std::set<std::string> texts = texts_of(name, schema);
    if (texts.empty()) return add_text(grammar, from, marks);
    for (const std::string& text : texts)
      for (const std::string_view mark : {marks.end, kCallEnd})
        if (text.find(mark) != text.npos)
          fail(Exit::bad_data, name, ": ", json_quoted(text), " has the mark ", mark);
    const Node behind = grammar.add();
    grammar.texts(from, texts, behind);
    from = behind;
  } else {
    const auto first = static_cast<Node>(grammar.nodes());
    from = add_schema(grammar, from, schema, all);
    grammar.write_as(first, '<', "\\u003c");  // so that no mark stands in it
  }
  return grammar.text(from, concat(marks.own_line ? "\n" : "", marks.end));
}

}  // namespace

Node add_marked_arguments(ByteGrammar& grammar, Node from, ToolForm form, element schema) {
  const Marks marks = marks_of(form);
  std::string_view type;
  if (!schema.is_object() || schema["type"].get(type) != simdjson::SUCCESS || type != "object")
    fail(Exit::bad_data, "expected a schema whose type is object");
  std::set<std::string_view> required;
  if (simdjson::dom::array list; schema["required"].get(list) == simdjson::SUCCESS)
    for (const element one : list)
      if (std::string_view name; one.get(name) == simdjson::SUCCESS) required.insert(name);
  simdjson::dom::object properties;
  if (schema["properties"].get(properties) != simdjson::SUCCESS) return from;
  for (const auto& [key, property] : properties) {
    const std::string name(key);
    if (name.empty() || name.find_first_of("<>\n") != name.npos)
      fail(Exit::bad_data, json_quoted(name),
           ": a name in calls of the model's form is not empty "
           "and has none of <, > and line breaks");
    const Node value = grammar.text(from, concat(marks.name, name, marks.value)),
               behind =
                   grammar.text(add_value(grammar, value, marks, name, schema, property), "\n");
    if (!required.contains(key)) grammar.link(from, behind);
    from = behind;
  }
  return from;
}

}  // namespace mt
