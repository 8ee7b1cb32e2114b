#include "serve/marked_arguments.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "base/json_object.h"
#include "serve/request_json.h"
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

// Any text, and the mark behind it, which stands in no place before.  Each node knows how much of
// the mark the text ends with, and whether that began a line.
Node add_text(ByteGrammar& grammar, Node from, const Marks& marks) {
  const std::string_view mark = marks.end;
  std::vector<std::array<Node, 2>> nodes(mark.size());
  for (auto& pair : nodes)
    for (Node& node : pair) node = grammar.add();
  const Node end = grammar.add();
  const auto at = [&](std::size_t matched, bool on_own_line) {
    return nodes[matched][on_own_line || !marks.own_line ? 1 : 0];
  };
  grammar.link(from, at(0, false));
  for (std::size_t matched = 0; matched < mark.size(); ++matched)
    for (const bool on_own_line : {false, true}) {
      if (on_own_line != (at(matched, on_own_line) == nodes[matched][1])) continue;
      const Node here = at(matched, on_own_line);
      const auto next = [&](char c) {  // -1: that would be the mark, in a place where it is none
        if (c == mark[matched] && matched + 1 < mark.size()) return at(matched + 1, on_own_line);
        if (c == mark[matched]) return on_own_line || !marks.own_line ? end : Node(-1);
        if (c == mark[0]) return at(1, false);
        return at(0, c == '\n');
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
      grammar.points(here, 0x80, 0x10FFFF, at(0, false));
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

// A parameter's schema that can be read alone: with the definitions of all.
std::string whole_schema(element all, element schema) {
  std::string text = simdjson::minify(schema);
  if (!schema.is_object()) return text;
  for (const char* const key : {"$defs", "definitions"}) {
    element definitions;
    if (all[key].get(definitions) != simdjson::SUCCESS || schema[key].error() == simdjson::SUCCESS)
      continue;
    text = concat("{", json_quoted(key), ":", simdjson::minify(definitions),
                  text == "{}" ? "" : ",", text.substr(1));
  }
  return text;
}

Node add_value(ByteGrammar& grammar, Node from, const Marks& marks, const std::string& name,
               element all, element schema) {
  std::string_view type;
  if (schema.is_object() && schema["type"].get(type) == simdjson::SUCCESS && type == "string") {
    const std::set<std::string> texts = texts_of(name, schema);
    if (texts.empty()) return add_text(grammar, from, marks);
    for (const std::string& text : texts)
      if (text.find(marks.end) != text.npos)
        fail(Exit::bad_data, name, ": ", json_quoted(text), " has the mark that ends it");
    const Node behind = grammar.add();
    grammar.texts(from, texts, behind);
    from = behind;
  } else {
    simdjson::dom::parser parser;
    from = add_schema(grammar, from, parse_request(parser, whole_schema(all, schema)).value());
  }
  return grammar.text(from, concat(marks.own_line ? "\n" : "", marks.end));
}

}  // namespace

Node add_marked_arguments(ByteGrammar& grammar, Node from, ToolForm form, std::string_view schema) {
  const Marks marks = marks_of(form);
  simdjson::dom::parser parser;
  const element all = parse_request(parser, schema).value();
  std::string_view type;
  if (!all.is_object() || all["type"].get(type) != simdjson::SUCCESS || type != "object")
    fail(Exit::bad_data, "expected a schema whose type is object");
  std::set<std::string_view> required;
  if (simdjson::dom::array list; all["required"].get(list) == simdjson::SUCCESS)
    for (const element one : list)
      if (std::string_view name; one.get(name) == simdjson::SUCCESS) required.insert(name);
  simdjson::dom::object properties;
  if (all["properties"].get(properties) != simdjson::SUCCESS) return from;
  for (const auto& [key, property] : properties) {
    const std::string name(key);
    if (name.empty() || name.find_first_of("<>\n") != name.npos)
      fail(Exit::bad_data, json_quoted(name),
           ": a name in calls of the model's form is not empty "
           "and has none of <, > and line breaks");
    const Node value = grammar.text(from, concat(marks.name, name, marks.value)),
               behind = grammar.text(add_value(grammar, value, marks, name, all, property), "\n");
    if (!required.contains(key)) grammar.link(from, behind);
    from = behind;
  }
  return from;
}

}  // namespace mt
