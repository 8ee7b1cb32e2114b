#include "post/policy/policy_prompts.h"

#include "base/error.h"
#include "infer/chat_prompts.h"
#include "post/labels/object_lines.h"
#include "text/put_in_front.h"

namespace mt {
namespace {

// Of an image or a tool's call there is nothing to be read.
std::string asked_in(const ChatValue& messages) {
  const auto text_of = [](const ChatValue& message, const char* name) {
    const ChatValue* const found = message.find(name);
    return found != nullptr && found->text() != nullptr ? *found->text() : std::string();
  };
  const std::vector<ChatValue>& all = *messages.items();
  if (all.size() == 1) return text_of(all[0], "content");
  std::string asked;
  for (const ChatValue& message : all)
    asked += concat(asked.empty() ? "" : "\n\n", text_of(message, "role"), ": ",
                    text_of(message, "content"));
  return asked;
}

// The messages of a line, as JSON; empty: it has none.
std::string messages_of(const JsonObject& line) {
  for (const char* const name : {"messages", "prompt"})
    if (line.has(name) && (line.member(name).is_array() || name == std::string_view("messages")))
      return simdjson::minify(line.member(name));
  return {};
}

std::optional<std::string> answer_of(const JsonObject& line) {
  for (const char* const name : {"answer", "expected_answer", "ground_truth", "solution"}) {
    if (!line.has(name)) continue;
    const simdjson::dom::element answer = line.member(name);
    std::string_view text;
    if (!answer.get(text)) return std::string(text);
    if (answer.is_number()) return simdjson::minify(answer);
    line.refuse("\"", name, "\": expected a text or a number; other things belong in \"metadata\"");
  }
  simdjson::dom::object as_verl;
  if (!line.has("reward_model") || line.member("reward_model").get(as_verl)) return {};
  const JsonObject inner(line.member("reward_model"), line.where() + ": reward_model");
  return inner.has("ground_truth") ? answer_of(inner) : std::nullopt;
}

PolicyPrompt prompt_of(const JsonObject& line, const Tokenizer& tokenizer,
                       const ChatPrompts& chat) {
  PolicyPrompt prompt;
  if (std::string messages = messages_of(line); !messages.empty()) {
    const std::string json = line.has("messages")
                                 ? line.json()
                                 : concat("{\"messages\":", messages, ",", line.json().substr(1));
    prompt.chat = std::make_shared<const ChatValue>(chat_value_of_json(json, line.where()));
    prompt.messages = std::move(messages);
    prompt.text = chat.text(*prompt.chat, line.where());
    prompt.asked = asked_in(*prompt.chat->find("messages"));
    encode_alone(tokenizer, prompt.text, prompt.ids);
  } else {
    const char* found = nullptr;
    for (const char* const name : {"prompt", "problem", "question"})
      if (found == nullptr && line.has(name)) found = name;
    if (found == nullptr) line.refuse("no \"prompt\", \"problem\", \"question\" or \"messages\"");
    prompt.text = prompt.asked = line.text(found);
    tokenizer.encode(prompt.text, prompt.ids);
  }
  if (prompt.ids.empty()) line.refuse("a prompt without a token");
  prompt.answer = answer_of(line);
  if (line.has("metadata")) prompt.metadata = simdjson::minify(line.member("metadata"));
  return prompt;
}

}  // namespace

PolicyPrompts read_prompts(const std::vector<std::string>& files, const Tokenizer& tokenizer,
                           const ChatPrompts& chat, const PromptOptions& options) {
  PolicyPrompts all;
  for_each_object(files, [&](const JsonObject& line, std::int64_t number) {
    PolicyPrompt prompt = prompt_of(line, tokenizer, chat);
    if (options.need_answers && !prompt.answer)
      line.refuse(
          "no \"answer\", \"expected_answer\", \"ground_truth\" or \"solution\", which --reward "
          "needs");
    prompt.file = line.where().substr(0, line.where().rfind(':'));
    prompt.line = number;
    if (std::ssize(prompt.ids) > options.longest)
      ++all.dropped;
    else
      all.prompts.push_back(std::move(prompt));
  });
  if (all.prompts.empty())
    fail(Exit::bad_data, files.front(), ": no prompts",
         all.dropped > 0 ? " that are short enough" : "");
  return all;
}

}  // namespace mt
