#include "serve/tools.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/json_object.h"
#include "serve/marked_arguments.h"
#include "serve/request_json.h"
#include "text/grammar/json_schema.h"

namespace mt {

using simdjson::dom::element;

// --- Requests -----------------------------------------------------------------------------------

static std::string name_of_choice(const Tools& tools, element choice) {
  std::string_view name;
  if (choice["function"]["name"].get(name) != simdjson::SUCCESS)
    RequestFields::wrong("tool_choice",
                         "none, auto, required or {\"type\": \"function\", "
                         "\"function\": {\"name\": ...}}");
  if (std::ranges::find(tools.functions, name, [](const auto& one) { return one.first; }) ==
      tools.functions.end())
    RequestFields::wrong("tool_choice", "the name of one of the tools");
  return std::string(name);
}

// As many as OpenAI takes.
static constexpr std::size_t kMostTools = 128;

// OpenAI's choice among some of the tools.  Where the model may answer otherwise, too, nothing
// keeps it from the others.
static std::vector<std::string> names_allowed(const Tools& tools, element allowed) {
  static constexpr const char* kAllowed =
      "\"allowed_tools\": {\"mode\": \"required\", \"tools\": [...]}";
  std::string_view mode;
  simdjson::dom::array list;
  if (allowed["mode"].get(mode) != simdjson::SUCCESS || mode != "required" ||
      allowed["tools"].get(list) != simdjson::SUCCESS || list.size() == 0)
    RequestFields::wrong("tool_choice", kAllowed);
  if (list.size() > kMostTools)
    RequestFields::wrong("tool_choice", concat("at most ", kMostTools, " tools"));
  std::vector<std::string> names;
  for (const element one : list) names.push_back(name_of_choice(tools, one));
  return names;
}

static constexpr const char* kTools =
    "a list of {\"type\": \"function\", \"function\": {\"name\": ..., \"parameters\": ...}}";

// No form of calls has to quote such a name, and in none does it end what it stands in.
static bool is_name(std::string_view name) {
  return !name.empty() && name.find_first_of("\"\\<>{}[]\x7f") == name.npos &&
         std::ranges::none_of(name, [](char c) { return c >= 0 && c <= ' '; });
}

// A schema of objects: where none is said, or no type, or one of several, it is said that they are
// objects.
static std::string object_schema(simdjson::simdjson_result<element> given) {
  simdjson::dom::object schema;
  if (bool any = false; given.error() != simdjson::SUCCESS || given.is_null() ||
                        (given.get(any) == simdjson::SUCCESS && any))
    return R"({"type":"object"})";
  if (given.get(schema) != simdjson::SUCCESS) return simdjson::minify(given.value());
  bool says_type = false;
  std::string members;
  for (const auto& [key, value] : schema) {
    simdjson::dom::array types;
    if (key == "type" && value.get(types) == simdjson::SUCCESS &&
        std::ranges::any_of(types, [](element type) {
          return type.is_string() && type.get_string().value() == "object";
        }))
      continue;
    for (const char* const name : {"type", "anyOf", "oneOf", "$ref", "enum", "const"})
      says_type |= key == name;
    members += concat(",", json_quoted(key), ":", simdjson::minify(value));
  }
  return says_type ? concat("{", members.substr(1), "}")
                   : concat(R"({"type":"object")", members, "}");
}

Tools read_tools(RequestFields& fields) {
  Tools tools;
  const std::optional<element> listed = fields.any("tools"), choice = fields.any("tool_choice");
  tools.several = fields.flag("parallel_tool_calls").value_or(true);
  if (listed) {
    simdjson::dom::array list;
    if (listed->get(list) != simdjson::SUCCESS) RequestFields::wrong("tools", kTools);
    if (list.size() > kMostTools)
      RequestFields::wrong("tools", concat("at most ", kMostTools, " of them"));
    for (const element one : list) {
      std::string_view name;
      if (one["function"]["name"].get(name) != simdjson::SUCCESS)
        RequestFields::wrong("tools", kTools);
      if (!is_name(name))
        RequestFields::wrong("tools", concat("a name without blanks, control characters and "
                                             "\"\\<>{}[], not ",
                                             json_quoted(name)));
      tools.functions.emplace_back(name, object_schema(one["function"]["parameters"]));
    }
  }
  std::string_view asked = tools.functions.empty() ? "none" : "auto";
  element allowed;
  if (choice && (*choice)["allowed_tools"].get(allowed) == simdjson::SUCCESS)
    tools.must_call = names_allowed(tools, allowed);
  else if (choice && choice->get(asked) != simdjson::SUCCESS)
    tools.must_call.push_back(name_of_choice(tools, *choice));
  else if (asked == "required")
    for (const auto& [name, parameters] : tools.functions) tools.must_call.push_back(name);
  else if (asked != "none" && asked != "auto")
    RequestFields::wrong("tool_choice", "none, auto, required or a function");
  if (asked == "required" && tools.functions.empty())
    RequestFields::wrong("tool_choice", "none or auto, without tools");
  tools.may_call = !tools.functions.empty() && (asked != "none" || !tools.must_call.empty());
  return tools;
}

namespace {

// What stands in front of all calls, of a call's name, of its arguments, behind these, between two
// calls and behind all.  Without what stands between there is but one.
struct Writing {
  const char *begin, *name, *arguments, *behind, *between, *end;
};

Writing writing_of(ToolForm form) {
  switch (form) {
    case ToolForm::hermes:
      return {"", "<tool_call>\n{\"name\": \"", "\", \"arguments\": ", "}\n</tool_call>", "\n", ""};
    case ToolForm::llama3:
      return {"", "{\"name\": \"", "\", \"parameters\": ", "}", "; ", ""};
    case ToolForm::mistral:
      return {"[TOOL_CALLS][", "{\"name\": \"", "\", \"arguments\": ", "}", ", ", "]"};
    case ToolForm::mistral_args:
      return {"", "[TOOL_CALLS]", "[ARGS]", "", "", ""};
    case ToolForm::deepseek:
      return {"<｜tool▁calls▁begin｜>",
              "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
              "\n```json\n",
              "\n```<｜tool▁call▁end｜>",
              "\n",
              "<｜tool▁calls▁end｜>"};
    case ToolForm::deepseek_bare:
      return {"<｜tool▁calls▁begin｜>",
              "<｜tool▁call▁begin｜>",
              "<｜tool▁sep｜>",
              "<｜tool▁call▁end｜>",
              "",
              "<｜tool▁calls▁end｜>"};
    case ToolForm::channels:
      return {
          "", "<|channel|>commentary to=functions.", " <|constrain|>json<|message|>", "", nullptr,
          ""};
    case ToolForm::qwen_coder:
      return {"", "<tool_call>\n<function=", ">\n", "</function>\n</tool_call>", "\n", ""};
    case ToolForm::glm:
      return {"", "<tool_call>", "\n", "</tool_call>", "\n", ""};
  }
  fail(Exit::internal, "a form of calls that is not known");
}

// Whether a schema allows objects alone.  Each reference is followed once, however many lead there;
// one that leads back to itself allows nothing that is known.
class ObjectSchemas {
 public:
  explicit ObjectSchemas(element root) : root_(root) {}

  bool includes(element schema, int depth = 0) {
    const auto is_true_of_all = [&](const char* key, const auto& is_true) {
      simdjson::dom::array list;
      return schema[key].get(list) == simdjson::SUCCESS && std::ranges::all_of(list, is_true);
    };
    const auto is_of = [&](element one) { return includes(one, depth + 1); };
    std::string_view type, reference;
    element constant;
    if (depth > static_cast<int>(kMostDepth) || !schema.is_object()) return false;
    if (schema["type"].get(type) == simdjson::SUCCESS) return type == "object";
    if (schema["const"].get(constant) == simdjson::SUCCESS) return constant.is_object();
    if (schema["$ref"].get(reference) == simdjson::SUCCESS) return is_referred(reference, depth);
    return is_true_of_all("enum", [](element one) { return one.is_object(); }) ||
           is_true_of_all("anyOf", is_of) || is_true_of_all("oneOf", is_of);
  }

 private:
  bool is_referred(std::string_view reference, int depth) {
    const auto [known, is_new] = known_.emplace(reference, false);
    element there;
    if (is_new && reference.starts_with('#') &&
        root_.at_pointer(reference.substr(1)).get(there) == simdjson::SUCCESS)
      known->second = includes(there, depth + 1);
    return known->second;
  }

  element root_;
  std::map<std::string_view, bool> known_;  // by references
};

}  // namespace

ByteGrammar grammar_of_calls(const Tools& tools, ToolForm form) {
  const Writing w = writing_of(form);
  ByteGrammar grammar;
  const ByteGrammar::Rule all = grammar.add_rule(), one = grammar.add_rule();
  for (const auto& [name, parameters] : tools.functions) {
    if (std::ranges::count(tools.must_call, name) == 0) continue;
    simdjson::dom::parser parser;
    const std::string quoted = json_quoted(name);
    const ByteGrammar::Node before = grammar.text(
        grammar.begin(one), concat(w.name, quoted.substr(1, quoted.size() - 2), w.arguments));
    const element schema = parse_request(parser, parameters).value();
    if (!ObjectSchemas(schema).includes(schema))
      fail(Exit::bad_data, name, ": expected parameters whose type is object");
    const auto first = static_cast<ByteGrammar::Node>(grammar.nodes());
    const ByteGrammar::Node behind = marks_arguments(form)
                                         ? add_marked_arguments(grammar, before, form, schema)
                                         : add_schema(grammar, before, schema, schema);
    if (form == ToolForm::channels)
      grammar.write_as(first, '<', "\\u003c");  // as a mark ends a message wherever it stands
    grammar.link(grammar.text(behind, w.behind), grammar.end(one));
  }
  const ByteGrammar::Node called = grammar.call(grammar.text(grammar.begin(all), w.begin), one);
  grammar.link(grammar.text(called, w.end), grammar.end(all));
  if (tools.several && w.between != nullptr)
    grammar.link(grammar.call(grammar.text(called, w.between), one), called);
  grammar.finish();
  return grammar;
}

}  // namespace mt
