#include "serve/response_request.h"

#include <limits>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/json_object.h"
#include "serve/request_fields.h"
#include "serve/request_json.h"

namespace mt {
namespace {

using simdjson::dom::element;
constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();

std::optional<element> member(element of, std::string_view name) {
  element value;
  simdjson::dom::object object;
  if (of.get(object) != simdjson::SUCCESS || object[name].get(value) != simdjson::SUCCESS ||
      value.is_null())
    return {};
  return value;
}

std::optional<std::string> text_member(element of, std::string_view name) {
  const std::optional<element> value = member(of, name);
  std::string_view text;
  if (!value || value->get(text) != simdjson::SUCCESS) return {};
  return std::string(text);
}

// The messages of a chat, written one behind the other.
class Conversation {
 public:
  Conversation() { json_.begin_array(); }

  // content: its JSON.
  void add_message(std::string_view role, const std::string& content) {
    end_turn();
    if (role == "assistant") {
      turn_ = content;
      return;
    }
    thought_.clear();
    json_.begin_object().member("role", role).key("content").raw(content).end_object();
  }

  void add(element item) {
    const std::string type = text_member(item, "type").value_or("message");
    if (type == "message") {
      const std::string role = text_member(item, "role").value_or("");
      if (role.empty()) wrong("messages with \"role\"");
      add_message(role, content_of(item, "content"));
    } else if (type == "function_call")
      add_call(item);
    else if (type == "function_call_output")
      add_output(item);
    else if (type == "reasoning")
      add_thought(item);
    else
      wrong(concat(
          "items of the types message, function_call, function_call_output and reasoning, not ",
          json_quoted(type)));
  }

  std::string end() {
    end_turn();
    return json_.end_array().text();
  }

 private:
  [[noreturn]] static void wrong(std::string_view expected) {
    RequestFields::wrong("input", expected);
  }

  // The JSON of a message's content, whose parts have a chat's types.
  static std::string content_of(element item, std::string_view name) {
    const std::optional<element> content = member(item, name);
    simdjson::dom::array parts;
    if (!content) wrong(concat("items with ", json_quoted(name)));
    if (content->is_string()) return simdjson::minify(*content);
    if (content->get(parts) != simdjson::SUCCESS)
      wrong("items whose content is a text or a list of parts");
    JsonWriter json;
    json.begin_array();
    for (const element part : parts) {
      const std::string type = text_member(part, "type").value_or("");
      const auto text = text_member(part, type == "refusal" ? "refusal" : "text");
      const auto url = text_member(part, "image_url");
      if (type == "input_image" && url) {
        json.begin_object().member("type", "image_url").key("image_url");
        json.begin_object().member("url", *url).end_object().end_object();
      } else if (text && (type == "input_text" || type == "output_text" || type == "text" ||
                          type == "refusal")) {
        json.begin_object().member("type", "text").member("text", *text).end_object();
      } else {
        wrong("parts of the types input_text, output_text and input_image, not " +
              json_quoted(type));
      }
    }
    return json.end_array().text();
  }

  void add_call(element item) {
    const auto name = text_member(item, "name"), arguments = text_member(item, "arguments");
    if (!name || !arguments) wrong("a function_call with \"name\" and \"arguments\"");
    JsonWriter json;
    json.begin_object().member("id", text_member(item, "call_id").value_or(""));
    json.member("type", "function").key("function").begin_object();
    json.member("name", *name).member("arguments", *arguments).end_object().end_object();
    calls_ += concat(calls_.empty() ? "" : ",", json.text());
  }

  void add_output(element item) {
    end_turn();
    thought_.clear();
    json_.begin_object().member("role", "tool");
    json_.member("tool_call_id", text_member(item, "call_id").value_or(""));
    json_.key("content").raw(content_of(item, "output")).end_object();
  }

  void add_thought(element item) {
    end_turn();
    for (const char* const name : {"content", "summary"}) {
      simdjson::dom::array parts;
      const std::optional<element> list = member(item, name);
      if (!list || list->get(parts) != simdjson::SUCCESS) continue;
      for (const element part : parts) thought_ += text_member(part, "text").value_or("");
      if (!thought_.empty()) return;
    }
  }

  // What the model said in one turn is one message: its thought, its text and its calls.  A thought
  // alone waits for what it leads to.
  void end_turn() {
    if (turn_.empty() && calls_.empty()) return;
    json_.begin_object().member("role", "assistant").key("content");
    json_.raw(turn_.empty() ? "\"\"" : turn_);
    if (!thought_.empty()) json_.member("reasoning_content", thought_);
    if (!calls_.empty()) json_.key("tool_calls").raw("[" + calls_ + "]");
    json_.end_object();
    turn_.clear();
    calls_.clear();
    thought_.clear();
  }

  JsonWriter json_;
  std::string turn_, calls_, thought_;  // JSON, of a turn of the model's that has not ended
};

std::string messages_of(RequestFields& fields) {
  Conversation conversation;
  if (const auto instructions = fields.text("instructions"))
    conversation.add_message("system", json_quoted(*instructions));
  const std::optional<element> input = fields.any("input");
  if (!input) throw ApiError{.message = "input: is required", .param = "input"};
  simdjson::dom::array items;
  if (input->is_string())
    conversation.add_message("user", simdjson::minify(*input));
  else if (input->get(items) != simdjson::SUCCESS || items.size() == 0)
    RequestFields::wrong("input", "a text or a list of items");
  else
    for (const element item : items) conversation.add(item);
  return conversation.end();
}

// A function without its name's envelope, {"type": "function", "name": ...}, in a chat's.
std::string function_of(element flat, const char* field) {
  if (text_member(flat, "type") != "function" || !text_member(flat, "name"))
    RequestFields::wrong(field, "{\"type\": \"function\", \"name\": ...} alone");
  JsonWriter json;
  json.begin_object().member("type", "function").key("function").begin_object();
  simdjson::dom::object members;
  if (flat.get(members) == simdjson::SUCCESS)
    for (const auto& [key, value] : members)
      if (key != "type") json.key(key).raw(simdjson::minify(value));
  return json.end_object().end_object().text();
}

std::string functions_of(element list, const char* field) {
  simdjson::dom::array flat;
  if (list.get(flat) != simdjson::SUCCESS) RequestFields::wrong(field, "a list");
  std::string all;
  for (const element one : flat) all += concat(all.empty() ? "" : ",", function_of(one, field));
  return "[" + all + "]";
}

void write_tools(RequestFields& fields, JsonWriter& json) {
  if (const auto tools = fields.any("tools")) json.key("tools").raw(functions_of(*tools, "tools"));
  const auto choice = fields.any("tool_choice");
  if (!choice) return;
  json.key("tool_choice");
  const auto tools = member(*choice, "tools");
  if (!choice->is_object()) {
    json.raw(simdjson::minify(*choice));
  } else if (tools && text_member(*choice, "type") == "allowed_tools") {
    json.begin_object().member("type", "allowed_tools").key("allowed_tools").begin_object();
    json.member("mode", text_member(*choice, "mode").value_or(""));
    json.key("tools").raw(functions_of(*tools, "tool_choice")).end_object().end_object();
  } else {
    json.raw(function_of(*choice, "tool_choice"));
  }
}

// text: {"format": ..., "verbosity": ...}
void write_text(RequestFields& fields, JsonWriter& json) {
  const auto text = fields.any("text");
  if (!text) return;
  if (!text->is_object()) RequestFields::wrong("text", "an object");
  if (const auto verbosity = text_member(*text, "verbosity")) json.member("verbosity", *verbosity);
  const auto format = member(*text, "format");
  if (!format) return;
  json.key("response_format");
  if (text_member(*format, "type") == "json_schema") {
    json.begin_object().member("type", "json_schema").key("json_schema");
    json.raw(simdjson::minify(*format)).end_object();
  } else {
    json.raw(simdjson::minify(*format));
  }
}

// What else is to be told: of tools that run on a server, and of thoughts that nobody may read,
// there is nothing.
void check_include(RequestFields& fields) {
  const auto include = fields.any("include");
  simdjson::dom::array list;
  if (!include) return;
  if (include->get(list) != simdjson::SUCCESS) RequestFields::wrong("include", "a list of texts");
  for (const element one : list) {
    std::string_view what;
    if (one.get(what) != simdjson::SUCCESS) RequestFields::wrong("include", "a list of texts");
    if (what == "message.output_text.logprobs")
      RequestFields::wrong("include", concat("nothing of ", what, ", which chats have"));
  }
}

void check_not_done(RequestFields& fields) {
  for (const char* const name : {"previous_response_id", "conversation", "item_reference"})
    fields.refuse(name, "no conversation is kept; input takes all of it");
  for (const char* const name : {"messages", "max_tokens", "max_completion_tokens",
                                 "response_format", "reasoning_effort", "verbosity", "logprobs"})
    fields.refuse(name, "chats have it; here are input, max_output_tokens, text and reasoning");
  fields.refuse("prompt", "no prompts are kept; input takes all of it");
  fields.refuse("background", "an answer comes at once", {"false"});
  fields.refuse("truncation", "no input is cut", {R"("disabled")", R"("auto")"});
  fields.refuse("max_tool_calls", "no tool is called here");
  fields.refuse("top_logprobs", "chats have it", {"0"});
  fields.refuse("prompt_logprobs", "chats have it");
  fields.refuse("n", "one answer is made", {"1"});
  check_include(fields);
  fields.pass_over({"stream_options"});
}

// Members that an answer repeats, as they were given, or as they are without being given.
std::string told_of(RequestFields& fields) {
  static constexpr std::pair<const char*, const char*> kRepeated[] = {
      {"instructions", "null"},
      {"max_output_tokens", "null"},
      {"metadata", "{}"},
      {"parallel_tool_calls", "true"},
      {"reasoning", R"({"effort":null,"summary":null})"},
      {"temperature", "1"},
      {"text", R"({"format":{"type":"text"}})"},
      {"tool_choice", R"("auto")"},
      {"tools", "[]"},
      {"top_p", "1"},
      {"truncation", R"("disabled")"},
      {"user", "null"}};
  std::string told;
  for (const auto& [name, otherwise] : kRepeated) {
    const auto value = fields.any(name);
    told += concat(json_quoted(name), ":", value ? simdjson::minify(*value) : otherwise, ",");
  }
  return told;
}

}  // namespace

ResponseRequest read_response_request(std::string_view body) {
  RequestFields fields(body);
  JsonWriter json;
  json.begin_object().key("messages").raw(messages_of(fields));
  write_tools(fields, json);
  write_text(fields, json);
  if (const auto effort = fields.any("reasoning"); effort && !effort->is_object())
    RequestFields::wrong("reasoning", "an object");
  else if (effort && text_member(*effort, "effort"))
    json.member("reasoning_effort", *text_member(*effort, "effort"));
  if (const auto most = fields.integer("max_output_tokens", 1, kMostTokens))
    json.member("max_completion_tokens", *most);
  check_not_done(fields);
  const std::string told = told_of(fields);
  for (const char* const name : {"temperature", "top_p", "parallel_tool_calls"})
    if (const auto value = fields.any(name)) json.key(name).raw(simdjson::minify(*value));
  for (const std::string& name : fields.unknown())  // as chats have them
    if (const auto value = fields.any(name)) json.key(name).raw(simdjson::minify(*value));
  return {.chat = json.end_object().text(), .told = told};
}

}  // namespace mt
