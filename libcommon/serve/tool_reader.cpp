#include "serve/tool_reader.h"

#include <algorithm>

#include "base/json.h"
#include "base/json_object.h"
#include "serve/marked_arguments.h"
#include "serve/request_json.h"

namespace mt {

using simdjson::dom::element;

namespace {

constexpr std::string_view kBegin = "<tool_call>", kEnd = "</tool_call>",
                           kPython = "<|python_tag|>", kBlank = " \t\r\n",
                           kMistral = "[TOOL_CALLS]", kDeepSeek = "<｜tool▁calls▁begin｜>";

// Where calls begin and end; those without an end go to the next beginning, or to the end of all.
struct Marks {
  std::string_view begin, end;
};
Marks marks_of(ToolForm form) {
  switch (form) {
    case ToolForm::mistral:
    case ToolForm::mistral_args:
      return {kMistral, ""};
    case ToolForm::deepseek:
    case ToolForm::deepseek_bare:
      return {kDeepSeek, "<｜tool▁calls▁end｜>"};
    default:
      return {kBegin, kEnd};
  }
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == text.npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// How long the JSON object is that a text begins with; nothing: it does not end.
std::optional<std::size_t> size_of_object(std::string_view text) {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\')
      ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && c == '{')
      ++depth;
    else if (!quoted && c == '}' && --depth == 0)
      return i + 1;
  }
  return std::nullopt;
}

// Where a mark stands behind `from`, but for JSON objects, whose texts may have it.  An object that
// does not end may go on, or, where the text has ended, is none.
std::size_t find_outside_objects(std::string_view text, std::string_view mark, std::size_t from,
                                 bool ended) {
  for (;;) {
    const std::size_t at = text.find(mark, from), object = text.find('{', from);
    if (at == text.npos || at < object) return at;
    const auto size = size_of_object(text.substr(object));
    if (!size) return ended ? at : text.npos;
    from = object + *size;
  }
}

// Where a call ends that begins at `from`, by its mark.
std::size_t find_end(ToolForm form, std::string_view text, std::string_view mark, std::size_t from,
                     bool ended) {
  return marks_arguments(form) ? text.find(mark, from)
                               : find_outside_objects(text, mark, from, ended);
}

// Takes what stands in front of a mark off a text, and the mark; nothing if it is not there.
std::optional<std::string_view> take_to(std::string_view& text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  if (at == text.npos) return std::nullopt;
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at + mark.size());
  return before;
}

// The call that an object is; nothing if it is none.
std::optional<ToolCall> call_of(element call) {
  element arguments;
  std::string_view name;
  if (call["name"].get(name) != simdjson::SUCCESS || name.empty()) return std::nullopt;
  if (call["arguments"].get(arguments) != simdjson::SUCCESS &&
      call["parameters"].get(arguments) != simdjson::SUCCESS)
    return std::nullopt;
  if (!arguments.is_object()) return std::nullopt;
  return ToolCall{std::string(name), simdjson::minify(arguments)};
}

std::optional<ToolCall> call_of(std::string_view text) {
  simdjson::dom::parser parser;
  element call;
  if (parse_request(parser, text).get(call) != simdjson::SUCCESS) return std::nullopt;
  return call_of(call);
}

std::optional<ToolCall> call_of(std::string_view name, std::string_view arguments) {
  simdjson::dom::parser parser;
  element object;
  name = trimmed(name);
  if (name.empty() || parse_request(parser, arguments).get(object) != simdjson::SUCCESS ||
      !object.is_object())
    return std::nullopt;
  return ToolCall{std::string(name), simdjson::minify(object)};
}

// All of them, or none where one is no call.
std::vector<ToolCall> calls_of_list(std::string_view text) {
  simdjson::dom::parser parser;
  simdjson::dom::array list;
  std::vector<ToolCall> calls;
  if (parse_request(parser, text).get(list) != simdjson::SUCCESS) return calls;
  for (const element one : list) {
    const auto call = call_of(one);
    if (!call) return {};
    calls.push_back(*call);
  }
  return calls;
}

std::vector<ToolCall> calls_of_mistral(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with("[") && !text.starts_with("[ARGS]")) return calls_of_list(text);
  auto name = take_to(text, "[ARGS]");
  if (!name) return {};
  const auto call = call_of(name->substr(0, name->find("[CALL_ID]")), text);
  return call ? std::vector{*call} : std::vector<ToolCall>();
}

std::vector<ToolCall> calls_of_deepseek(std::string_view text) {
  std::vector<ToolCall> calls;
  while (take_to(text, "<｜tool▁call▁begin｜>")) {
    const std::size_t end = find_outside_objects(text, "<｜tool▁call▁end｜>", 0, true);
    std::string_view inside = text.substr(0, end);
    text.remove_prefix(inside.size());
    auto name = take_to(inside, "<｜tool▁sep｜>");
    if (!name) return {};
    if (constexpr std::string_view kJson = "```json"; inside.find(kJson) != inside.npos) {
      name = take_to(inside, kJson);
      inside = inside.substr(0, inside.rfind("```"));
    }
    const auto call = call_of(*name, inside);
    if (!call) return {};
    calls.push_back(*call);
  }
  return calls;
}

}  // namespace

std::optional<ToolForm> tool_form_of(std::string_view chat_template) {
  const auto has = [&](std::string_view text) { return chat_template.find(text) != text.npos; };
  if (has("<|channel|>") && has("functions.")) return ToolForm::channels;
  if (has(kMistral)) return has("[ARGS]") ? ToolForm::mistral_args : ToolForm::mistral;
  if (has(kDeepSeek)) return has("```json") ? ToolForm::deepseek : ToolForm::deepseek_bare;
  if (has(kBegin)) {
    if (has("<function=")) return ToolForm::qwen_coder;
    return has("<arg_key>") ? ToolForm::glm : ToolForm::hermes;
  }
  if (has(R"("parameters": )") && has("<|start_header_id|>")) return ToolForm::llama3;
  return std::nullopt;
}

std::size_t begun_mark(std::string_view text, std::string_view mark) {
  for (std::size_t size = std::min(text.size(), mark.size() - 1); size > 0; --size)
    if (mark.starts_with(text.substr(text.size() - size))) return size;
  return 0;
}

ToolReader::Said ToolReader::take(std::string_view more, bool ended) {
  held_ += more;
  return form_ == ToolForm::llama3 ? take_llama3(ended) : take_marked(ended);
}

// The JSON object of values that are given as texts.
std::string ToolReader::arguments_of(
    std::string_view name,
    const std::vector<std::pair<std::string_view, std::string_view>>& given) const {
  const auto found = std::ranges::find(functions_, name, [](const auto& one) { return one.first; });
  simdjson::dom::parser of_schema, of_value;
  element schema, value;
  if (found == functions_.end() ||
      parse_request(of_schema, found->second).get(schema) != simdjson::SUCCESS)
    schema = parse_request(of_schema, "{}").value();
  JsonWriter json;
  json.begin_object();
  for (const auto& [key, text] : given) {
    element property;
    std::string_view type;
    const bool is_known = schema["properties"][key].get(property) == simdjson::SUCCESS;
    const bool is_text =
        !is_known || (property["type"].get(type) == simdjson::SUCCESS && type == "string");
    if (!is_text && parse_request(of_value, trimmed(text)).get(value) == simdjson::SUCCESS)
      json.key(key).raw(simdjson::minify(value));
    else
      json.member(key, text);
  }
  return json.end_object().text();
}

std::vector<ToolCall> ToolReader::calls_inside(std::string_view text) const {
  std::vector<std::pair<std::string_view, std::string_view>> given;
  std::string_view name;
  switch (form_) {
    case ToolForm::mistral:
    case ToolForm::mistral_args:
      return calls_of_mistral(text);
    case ToolForm::deepseek:
    case ToolForm::deepseek_bare:
      return calls_of_deepseek(text);
    case ToolForm::qwen_coder: {
      if (!take_to(text, "<function=")) return {};
      name = trimmed(take_to(text, ">").value_or(""));
      while (take_to(text, "<parameter=")) {
        const auto key = take_to(text, ">");
        auto value = key ? take_to(text, "</parameter>") : key;
        if (!value) return {};
        if (value->starts_with('\n')) value->remove_prefix(1);
        if (value->ends_with('\n')) value->remove_suffix(1);
        given.emplace_back(*key, *value);
      }
      break;
    }
    case ToolForm::glm: {
      name = trimmed(text.substr(0, text.find("<arg_key>")));
      while (take_to(text, "<arg_key>")) {
        const auto key = take_to(text, "</arg_key>");
        const bool has_value = key && take_to(text, "<arg_value>");
        const auto value = has_value ? take_to(text, "</arg_value>") : std::nullopt;
        if (!value) return {};
        given.emplace_back(trimmed(*key), *value);
      }
      break;
    }
    default: {
      const auto call = call_of(text);
      return call ? std::vector{*call} : std::vector<ToolCall>();
    }
  }
  if (name.empty() || name.find_first_of("<>{\n") != name.npos) return {};
  return {{std::string(name), arguments_of(name, given)}};
}

// White space in front of a call, and behind the last one, is no text.
ToolReader::Said ToolReader::take_marked(bool ended) {
  const auto [first, last] = marks_of(form_);
  Said said;
  for (;;) {
    const std::size_t begin = held_.find(first);
    if (begin == held_.npos) break;
    const std::size_t inside = begin + first.size(),
                      end = find_end(form_, held_, last.empty() ? first : last, inside, ended);
    if (end == held_.npos && !ended) break;
    const std::vector<ToolCall> calls = calls_inside(
        std::string_view(held_).substr(inside, end == held_.npos ? end : end - inside));
    const std::size_t behind = end == held_.npos ? held_.size() : end + last.size();
    std::string_view before = std::string_view(held_).substr(0, calls.empty() ? behind : begin);
    if (!calls.empty()) before = before.substr(0, before.find_last_not_of(kBlank) + 1);
    said.text += before;
    said.calls.insert(said.calls.end(), calls.begin(), calls.end());
    called_ |= !calls.empty();
    held_.erase(0, behind);
  }
  std::size_t certain =
      ended ? held_.size() : std::min(held_.find(first), held_.size() - begun_mark(held_, first));
  if (!ended || called_) {  // a call may follow the white space
    const std::size_t blank = std::string_view(held_).substr(0, certain).find_last_not_of(kBlank);
    certain = blank == held_.npos ? 0 : blank + 1;
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
    const std::string_view rest = trimmed(text.substr(at));
    if (!rest.starts_with('{')) break;
    const auto size = size_of_object(rest);
    const auto call = call_of(rest.substr(0, size.value_or(0)));
    const std::string_view behind = trimmed(rest.substr(size.value_or(0)));
    if (!call || !(behind.empty() || behind[0] == ';')) break;
    said.calls.push_back(*call);
    if (behind.size() <= 1) return held_.clear(), said;
    at = text.size() - behind.size() + 1;
  }
  said = {.text = std::exchange(held_, ""), .calls = {}};
  return said;
}

}  // namespace mt
