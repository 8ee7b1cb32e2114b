#include "infer/chat_prompts.h"

#include "base/command.h"
#include "base/error.h"

namespace mt {

void ChatOptions::add_to(CommandLine& cl) {
  cl.option(
      "--chat-template", &chat_template, "NAME|FILE",
      "how \"messages\" become a text: a template of the model's folder, of a family (chatml, "
      "llama3, ...), or of a file; default: the folder's own");
  cl.option("--chat-template-kwargs", &kwargs, "JSON",
            "what the template sees by name, such as {\"enable_thinking\":false}");
}

ChatPrompts::ChatPrompts(const Tokenizer& tokenizer, std::vector<ChatFile> files, std::string place,
                         const ChatOptions& options, bool reads_images)
    : tokenizer_(tokenizer),
      files_(std::move(files)),
      place_(std::move(place)),
      asked_(options.chat_template),
      reads_images_(reads_images) {
  if (options.kwargs.empty()) return;
  try {
    kwargs_ = chat_value_of_json(options.kwargs, "--chat-template-kwargs");
  } catch (const Error& error) {
    fail(Exit::usage, error.what());
  }
  if (!kwargs_.is_dict()) fail(Exit::usage, "--chat-template-kwargs: expected a JSON object");
}

const ChatTemplate& ChatPrompts::chat(bool tools) const {
  const std::lock_guard lock(mutex_);
  std::optional<ChatTemplate>& chosen = chats_[tools && asked_.empty() ? 1 : 0];
  if (!chosen) {
    if (!chats_[0] && !chats_[1])  // once: others may be reading it
      special_tokens_ = chat_special_tokens(files_, place_, &tokenizer_);
    chosen.emplace(choose_chat_template({.asked = asked_,
                                         .files = files_,
                                         .place = place_,
                                         .tokenizer = &tokenizer_,
                                         .tools = tools}));
  }
  return *chosen;
}

void ChatPrompts::check() const {
  if (asked_.empty() && chat_templates_in(files_, place_).empty()) return;
  for (const bool tools : {false, true}) chat(tools);
}

std::string ChatPrompts::text(const ChatValue& line, std::string_view where) const {
  ChatInput input{.kwargs = kwargs_};
  const auto flag = [&](std::string_view name, bool otherwise) {
    const ChatValue* const value = line.find(name);
    if (value == nullptr || value->is_none()) return otherwise;
    if (value->boolean() == nullptr)
      fail(Exit::bad_data, where, ": \"", name, "\": expected true or false");
    return *value->boolean();
  };
  input.continue_final_message = flag("continue_final_message", false);
  input.add_generation_prompt = flag("add_generation_prompt", !input.continue_final_message);
  if (input.add_generation_prompt && input.continue_final_message)
    fail(Exit::bad_data, where,
         ": \"add_generation_prompt\" and \"continue_final_message\" exclude each other");
  const auto list = [&](std::string_view name) {
    const ChatValue* const value = line.find(name);
    if (value == nullptr || value->is_none()) return ChatValue();
    if (!value->is_list()) fail(Exit::bad_data, where, ": \"", name, "\": expected a list");
    return *value;
  };
  input.tools = list("tools");
  const ChatTemplate& chat = this->chat(!input.tools.is_none());
  input.messages = chat_messages(list("messages"), where, reads_images_);
  // What OpenAI calls a developer's message, all others call the system's.
  if (chat.source().find("developer") == std::string_view::npos) {
    std::vector<ChatValue> messages(input.messages.items()->begin(), input.messages.items()->end());
    for (ChatValue& message : messages)
      if (*message.find("role")->text() == "developer") message.set("role", "system");
    input.messages = ChatValue::list(std::move(messages));
  }
  input.documents = list("documents");
  if (const ChatValue* const own = line.find("chat_template_kwargs"); own && !own->is_none()) {
    if (!own->is_dict())
      fail(Exit::bad_data, where, ": \"chat_template_kwargs\": expected an object");
    for (const auto& [name, value] : *own->pairs()) input.kwargs.set(*name.text(), value);
  }
  input.special_tokens = special_tokens_;
  try {
    return chat.render(input).text;
  } catch (const Error& error) {
    fail(error.code(), where, ": ", error.what());
  }
}

}  // namespace mt
