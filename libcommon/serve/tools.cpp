#include "serve/tools.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_object.h"
#include "serve/request_json.h"
#include "text/grammar/json_schema.h"

namespace mt {

using simdjson::dom::element;

static constexpr std::string_view kBegin = "<tool_call>", kEnd = "</tool_call>",
                                  kPython = "<|python_tag|>", kBlank = " \t\r\n";

std::optional<ToolForm> tool_form_of(std::string_view chat_template) {
  const auto has = [&](std::string_view text) { return chat_template.find(text) != text.npos; };
  if (has(kBegin) && !has("<function=") && !has("<arg_key>")) return ToolForm::hermes;
  if (has(R"("parameters": )") && has("<|start_header_id|>")) return ToolForm::llama3;
  return std::nullopt;
}

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

static constexpr const char* kTools =
    "a list of {\"type\": \"function\", \"function\": {\"name\": ..., \"parameters\": ...}}";

Tools read_tools(RequestFields& fields) {
  Tools tools;
  const std::optional<element> listed = fields.any("tools"), choice = fields.any("tool_choice");
  tools.several = fields.flag("parallel_tool_calls").value_or(true);
  if (listed) {
    simdjson::dom::array list;
    if (listed->get(list) != simdjson::SUCCESS) RequestFields::wrong("tools", kTools);
    for (const element one : list) {
      std::string_view name;
      if (one["function"]["name"].get(name) != simdjson::SUCCESS || name.empty())
        RequestFields::wrong("tools", kTools);
      element parameters;
      const bool given = one["function"]["parameters"].get(parameters) == simdjson::SUCCESS;
      tools.functions.emplace_back(name, given && !parameters.is_null()
                                             ? simdjson::minify(parameters)
                                             : R"({"type":"object"})");
    }
  }
  std::string_view asked = tools.functions.empty() ? "none" : "auto";
  if (choice && choice->get(asked) != simdjson::SUCCESS)
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

ByteGrammar grammar_of_calls(const Tools& tools, ToolForm form) {
  ByteGrammar grammar;
  const ByteGrammar::Rule all = grammar.add_rule(), one = grammar.add_rule();
  const bool hermes = form == ToolForm::hermes;
  for (const auto& [name, parameters] : tools.functions) {
    if (std::ranges::count(tools.must_call, name) == 0) continue;
    simdjson::dom::parser parser;
    const ByteGrammar::Node before = grammar.text(
        grammar.begin(one), concat(hermes ? "<tool_call>\n" : "", R"({"name": )", json_quoted(name),
                                   hermes ? R"(, "arguments": )" : R"(, "parameters": )"));
    const ByteGrammar::Node behind =
        add_schema(grammar, before, parse_request(parser, parameters).value());
    grammar.link(grammar.text(behind, hermes ? "}\n</tool_call>" : "}"), grammar.end(one));
  }
  const ByteGrammar::Node called = grammar.call(grammar.begin(all), one);
  grammar.link(called, grammar.end(all));
  if (tools.several)
    grammar.link(grammar.call(grammar.text(called, hermes ? "\n" : "; "), one), called);
  grammar.finish();
  return grammar;
}

// --- Answers ------------------------------------------------------------------------------------

// The call that a text is; nothing if it is none.
static std::optional<ToolCall> call_of(std::string_view text) {
  simdjson::dom::parser parser;
  element call, arguments;
  std::string_view name;
  if (parse_request(parser, text).get(call) != simdjson::SUCCESS ||
      call["name"].get(name) != simdjson::SUCCESS || name.empty())
    return std::nullopt;
  if (call["arguments"].get(arguments) != simdjson::SUCCESS &&
      call["parameters"].get(arguments) != simdjson::SUCCESS)
    return std::nullopt;
  if (!arguments.is_object()) return std::nullopt;
  return ToolCall{std::string(name), simdjson::minify(arguments)};
}

static std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == text.npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

ToolReader::Said ToolReader::take(std::string_view more, bool ended) {
  held_ += more;
  return form_ == ToolForm::hermes ? take_hermes(ended) : take_llama3(ended);
}

// How much of the end of a text may be the beginning of the mark.
static std::size_t begun(std::string_view text, std::string_view mark) {
  for (std::size_t size = std::min(text.size(), mark.size() - 1); size > 0; --size)
    if (mark.starts_with(text.substr(text.size() - size))) return size;
  return 0;
}

// White space in front of a call, and behind the last one, is no text.
ToolReader::Said ToolReader::take_hermes(bool ended) {
  Said said;
  for (;;) {
    const std::size_t begin = held_.find(kBegin), end = held_.find(kEnd, begin);
    if (begin == held_.npos) break;
    const std::size_t inside = begin + kBegin.size();
    if (end == held_.npos && !ended) break;
    const auto call =
        call_of(std::string_view(held_).substr(inside, end == held_.npos ? end : end - inside));
    const std::size_t behind = end == held_.npos ? held_.size() : end + kEnd.size();
    std::string_view before = std::string_view(held_).substr(0, call ? begin : behind);
    if (call) before = before.substr(0, before.find_last_not_of(kBlank) + 1);
    said.text += before;
    if (call) said.calls.push_back(*call);
    called_ |= call.has_value();
    held_.erase(0, behind);
  }
  std::size_t certain =
      ended ? held_.size() : std::min(held_.find(kBegin), held_.size() - begun(held_, kBegin));
  if (!ended || called_) {  // a call may follow the white space
    const std::size_t last = std::string_view(held_).substr(0, certain).find_last_not_of(kBlank);
    certain = last == held_.npos ? 0 : last + 1;
  }
  said.text += held_.substr(0, certain);
  held_.erase(0, certain);
  return said;
}

// Nothing is certain about a text that may be calls until it ends.
ToolReader::Said ToolReader::take_llama3(bool ended) {
  std::string_view text = trimmed(held_);
  const bool may_be =
      text.empty() || text[0] == '{' || kPython.starts_with(text.substr(0, kPython.size()));
  if (may_be && !ended) return {};
  Said said;
  if (text.starts_with(kPython)) text.remove_prefix(kPython.size());
  for (std::size_t at = 0; may_be && at < text.size();) {
    std::optional<ToolCall> call;
    std::size_t end = at;
    do {  // up to the first ";" at which a call is whole
      end = std::min(text.find(';', end + 1), text.size());
      call = call_of(text.substr(at, end - at));
    } while (!call && end < text.size());
    if (!call) break;
    said.calls.push_back(*call);
    at = end + 1;
    if (at >= text.size()) return held_.clear(), said;
  }
  said = {.text = std::exchange(held_, ""), .calls = {}};
  return said;
}

}  // namespace mt
