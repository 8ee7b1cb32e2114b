// ChatReader: what a chat's model says, apart: what it thinks, what it answers, and the functions
// that it calls (serve/tool_reader.h).  It thinks, in the forms of the families:
//   think     <think>...</think> in front of its answer, where the first mark may end the prompt
//             (Qwen 3, DeepSeek R1, GLM 4.5, Nemotron)
//   mistral   [THINK]...[/THINK]
//   channels  messages, <|channel|>HEADER<|message|>TEXT<|end|>, with <|start|>assistant between
//             them: thoughts have the header "analysis", a call of f has "to=functions.f" and JSON
//             of its arguments, all others are its answer (gpt-oss's "harmony")
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/tool_reader.h"

namespace mt {

enum class ThoughtForm : std::uint8_t { think, mistral, channels };

// The form that a chat template speaks of; nothing: none of these.
std::optional<ThoughtForm> thought_form_of(std::string_view chat_template);

// What is kept apart; nothing: it is text.
struct ChatForm {
  std::optional<ThoughtForm> thoughts = {};
  std::optional<ToolForm> calls = {};
  ToolFunctions functions = {};  // that may be called

  bool any() const { return thoughts || calls; }
};

class ChatReader {
 public:
  ChatReader(const ChatForm& form, std::string_view prompt);

  struct Said {
    std::string thought, text;
    std::vector<ToolCall> calls = {};
  };
  // What is certain by now.
  Said take(std::string_view more, bool ended);

 private:
  enum class Place : std::uint8_t { before, thinking, behind, text };  // behind: blank lines go

  void take_thoughts(Said& said, bool ended);
  void take_channels(Said& said, bool ended);
  void end_message(Said& said);

  std::optional<ThoughtForm> thoughts_;
  bool channels_;
  std::optional<ToolReader> calls_;
  Place place_;
  std::string held_;
  // Where there are channels: the header of the message that is read, and a call's arguments.
  std::string header_, arguments_;
  bool in_header_ = true;
};

}  // namespace mt
