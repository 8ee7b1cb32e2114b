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

// What a part says that it is, or, where it says nothing, what its members are of.
std::string kind_of(const ChatValue& part) {
  if (const ChatValue* const type = part.find("type"); type != nullptr && type->is_text())
    return *type->text();
  for (const char* const name : {"image", "image_url"})
    if (part.has(name)) return name;
  return "text";
}

// A text, or of parts with images the parts.
ChatValue content_of(const ChatValue& content, const std::string& where, bool images) {
  if (content.is_text()) return content;
  std::vector<ChatValue> parts;
  std::string joined;
  bool has_images = false;
  for (const ChatValue& part : *content.items()) {
    const std::string kind = kind_of(part);
    if (images && is_image_part(part)) {
      has_images = true;
      parts.push_back(ChatValue::dict({{"type", "image"}}));
      continue;
    }
    const ChatValue* const text = part.find("text");
    if (kind != "text" || text == nullptr || !text->is_text())
      fail(Exit::bad_data, where, ": \"content\": expected parts of the type \"text\"",
           images ? " or \"image\"" : "", kind != "text" ? concat(", not \"", kind, "\"") : "");
    for (const char* const name : {"image", "image_url"})
      if (part.has(name))
        fail(Exit::bad_data, where, ": \"content\": a part of the type \"text\" has \"", name,
             "\"; expected a part of its own");
    joined += *text->text();
    parts.push_back(ChatValue::dict({{"type", "text"}, {"text", *text}}));
  }
  return has_images ? ChatValue::list(std::move(parts)) : ChatValue(joined);
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

ChatValue normal_message(const ChatValue& message, const std::string& where, bool images) {
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
    made.set("content", content_of(*content, where, images));
  }
  if (const ChatValue* const calls = made.find("tool_calls"))
    made.set("tool_calls", parsed_calls(*calls, where));
  name_reasoning(made);
  return made;
}

}  // namespace

bool is_image_part(const ChatValue& part) {
  const std::string kind = kind_of(part);
  return kind == "image" || kind == "image_url";
}

ChatValue chat_messages(const ChatValue& messages, std::string_view place, bool images) {
  if (!messages.is_list()) fail(Exit::bad_data, place, ": \"messages\": expected a list");
  std::vector<ChatValue> made;
  for (const ChatValue& message : *messages.items())
    made.push_back(normal_message(message, concat(place, ": message ", made.size() + 1), images));
  return ChatValue::list(std::move(made));
}

}  // namespace mt
