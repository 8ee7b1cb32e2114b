// render_chat: renders chat templates for scripts/compare-templates.py.  Each line of stdin is a
// JSON object: `template`, and what the template sees: messages, tools, documents,
// add_generation_prompt, continue_final_message, special_tokens, kwargs, `now` (seconds since
// 1970).  Each line of stdout is {"text", "generated": [[begin, end]...], "placed"}, in bytes, or
// {"refused": what} where the template is, or {"error": what}.
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>

#include "base/command.h"
#include "base/error.h"
#include "base/json.h"
#include "text/chat/chat_template.h"

namespace {

bool truth(const mt::ChatValue& line, std::string_view key) {
  const mt::ChatValue* const value = line.find(key);
  return value != nullptr && value->boolean() != nullptr && *value->boolean();
}

mt::ChatValue value_or_none(const mt::ChatValue& line, std::string_view key) {
  const mt::ChatValue* const value = line.find(key);
  return value == nullptr ? mt::ChatValue() : *value;
}

mt::ChatInput input_of(const mt::ChatValue& line) {
  mt::ChatInput input;
  input.messages = value_or_none(line, "messages");
  input.tools = value_or_none(line, "tools");
  input.documents = value_or_none(line, "documents");
  input.kwargs = value_or_none(line, "kwargs");
  input.add_generation_prompt = truth(line, "add_generation_prompt");
  input.continue_final_message = truth(line, "continue_final_message");
  if (const mt::ChatValue* const tokens = line.find("special_tokens"))
    for (const auto& [name, text] : *tokens->pairs())
      input.special_tokens[*name.text()] = *text.text();
  if (const mt::ChatValue* const now = line.find("now"))
    input.clock = [seconds = *now->integer()] { return static_cast<std::time_t>(seconds); };
  return input;
}

void answer(const mt::ChatValue& line, mt::JsonWriter& json) {
  std::optional<mt::ChatTemplate> chat;
  try {
    chat.emplace(*line.find("template")->text(), "template");
  } catch (const mt::Error& error) {
    json.member("refused", error.what());
    return;
  }
  try {
    const mt::ChatText made = chat->render(input_of(line));
    json.member("text", made.text).key("generated").begin_array();
    for (const mt::ByteSpan& span : made.generated)
      json.begin_array().value(span.begin).value(span.end).end_array();
    json.end_array().member("placed", made.all_placed);
  } catch (const mt::Error& error) {
    json.member("error", error.what());
  }
}

void run(mt::CommandLine& cl) {
  cl.describe("render chat templates");
  cl.parse();
  for (std::string line; std::getline(std::cin, line);) {
    mt::JsonWriter json;
    json.begin_object();
    answer(mt::chat_value_of_json(line, "stdin"), json);
    json.end_object();
    std::puts(json.text().c_str());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) { return mt::run_command("render_chat", argc, argv, run); }
