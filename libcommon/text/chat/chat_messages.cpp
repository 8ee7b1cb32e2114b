// Messages as others write them, in the form that templates want.
#include <array>

#include "base/error.h"
#include "text/chat/chat_template.h"

namespace mt {
namespace {

constexpr auto kRoles = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"bard", "assistant"},
    {"bing", "assistant"},
    {"bot", "assistant"},
    {"chatgpt", "assistant"},
    {"function", "tool"},
    {"gpt", "assistant"},
    {"human", "user"},
    {"ipython", "tool"},
    {"model", "assistant"},
    {"observation", "tool"},
});

// The JSON of an object in its place; other texts stay.
ChatValue parsed_arguments(const ChatValue& arguments) {
  const std::string* const text = arguments.text();
  if (text == nullptr) return arguments;
  try {
    ChatValue value = chat_value_of_json(*text, "arguments");
    if (value.is_dict()) return value;
  } catch (const Error&) {
    // It is no JSON, and a template is given the text.
  }
  return arguments;
}

ChatValue parsed_calls(const ChatValue& calls, const std::string& where) {
  if (!calls.is_list()) fail(Exit::bad_data, where, ": \"tool_calls\": expected a list");
  std::vector<ChatValue> parsed;
  for (ChatValue call : *calls.items()) {
    if (!call.is_dict()) fail(Exit::bad_data, where, ": \"tool_calls\": expected objects");
    const ChatValue* const function = call.find("function");
    ChatValue inner = function == nullptr ? call : *function;
    if (const ChatValue* const arguments = inner.find("arguments"))
      inner.set("arguments", parsed_arguments(*arguments));
    if (function == nullptr)
      call = std::move(inner);
    else
      call.set("function", std::move(inner));
    parsed.push_back(std::move(call));
  }
  return ChatValue::list(std::move(parsed));
}

ChatValue joined_parts(const ChatValue& content, const std::string& where) {
  std::string text;
  for (const ChatValue& part : *content.items()) {
    const ChatValue* const type = part.find("type");
    const ChatValue* const own = part.find("text");
    if (own == nullptr || !own->is_text() ||
        (type != nullptr && type->is_text() && *type->text() != "text"))
      fail(Exit::bad_data, where, ": \"content\": expected parts of the type \"text\"",
           type != nullptr && type->is_text() ? concat(", not \"", *type->text(), "\"") : "");
    text += *own->text();
  }
  return text;
}

// What a part of a message is.
ChatValue part_of(const ChatValue& part, const std::string& where) {
  const ChatValue* const type = part.find("type");
  const std::string kind = type != nullptr && type->is_text() ? *type->text() : "text";
  if (kind == "image" || kind == "image_url")
    return ChatValue::dict({{ChatValue("type"), ChatValue("image")}});
  const ChatValue* const own = part.find("text");
  if (kind != "text" || own == nullptr || !own->is_text())
    fail(Exit::bad_data, where,
         ": \"content\": expected parts of the types \"text\" and \"image\", not \"", kind, "\"");
  return ChatValue::dict({{ChatValue("type"), ChatValue("text")}, {ChatValue("text"), *own}});
}

ChatValue parts_of(const ChatValue& content, const std::string& where) {
  std::vector<ChatValue> parts;
  if (content.is_text())
    parts.push_back(
        ChatValue::dict({{ChatValue("type"), ChatValue("text")}, {ChatValue("text"), content}}));
  else
    for (const ChatValue& part : *content.items()) parts.push_back(part_of(part, where));
  return ChatValue::list(std::move(parts));
}

void name_reasoning(ChatValue& message) {
  for (const char* const name : {"reasoning_content", "thinking", "reasoning"}) {
    const ChatValue* const found = message.find(name);
    if (found == nullptr) continue;
    const ChatValue reasoning = *found;
    message.set("reasoning_content", reasoning);
    if (message.find("thinking") == nullptr) message.set("thinking", reasoning);
    return;
  }
}

ChatValue normal_message(const ChatValue& message, const std::string& where, bool keep_parts) {
  if (!message.is_dict()) fail(Exit::bad_data, where, ": expected an object");
  ChatValue::Pairs pairs;
  for (const auto& [name, value] : *message.pairs())
    if (!value.is_none()) pairs.emplace_back(name, value);
  ChatValue made = ChatValue::dict(std::move(pairs));
  const ChatValue* const role = made.find("role");
  if (role == nullptr || !role->is_text()) fail(Exit::bad_data, where, ": no \"role\"");
  for (const auto& [other, usual] : kRoles)
    if (*role->text() == other) {
      made.set("role", usual);
      break;
    }
  if (const ChatValue* const content = made.find("content")) {
    if (!content->is_text() && !content->is_list())
      fail(Exit::bad_data, where, ": \"content\": expected a string or a list of parts");
    if (keep_parts)
      made.set("content", parts_of(*content, where));
    else if (content->is_list())
      made.set("content", joined_parts(*content, where));
  }
  if (const ChatValue* const calls = made.find("tool_calls"))
    made.set("tool_calls", parsed_calls(*calls, where));
  name_reasoning(made);
  return made;
}

}  // namespace

ChatValue chat_messages(const ChatValue& messages, std::string_view place, bool keep_parts) {
  if (!messages.is_list()) fail(Exit::bad_data, place, ": \"messages\": expected a list");
  std::vector<ChatValue> made;
  for (const ChatValue& message : *messages.items())
    made.push_back(
        normal_message(message, concat(place, ": message ", made.size() + 1), keep_parts));
  return ChatValue::list(std::move(made));
}

}  // namespace mt
