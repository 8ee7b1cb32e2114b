// Prompts that a policy answers, one JSON object a line:
//   {"prompt"|"problem"|"question":text or "messages"|"prompt":[…],
//    "answer"?|"expected_answer"?|"ground_truth"?|"solution"?:text or number,
//    "reward_model"?:{"ground_truth":text or number}   as verl has it, where there is none of these
//    "metadata"?:any}                                  for programs that judge
// Messages become a text by the model's chat template, as mt-generate has it; a text stands for
// itself, with what the tokenizer puts around one.  To who judges a prompt of one message says its
// content, and of several each a role, a colon and the content, with a blank line in between.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mt {

class ChatPrompts;
class ChatValue;
class Tokenizer;

struct PolicyPrompt {
  std::vector<std::int32_t> ids;
  std::string text;
  std::string asked = {};  // what it says to who reads it: of messages their contents
  // The line whose messages became that text; null: a text stands for itself.
  std::shared_ptr<const ChatValue> chat = {};
  std::string messages = "null", metadata = "null";  // JSON
  std::optional<std::string> answer = {};
  std::string file = {};
  std::int64_t line = 0;
};

struct PromptOptions {
  std::int64_t longest = 0;   // tokens; longer ones are dropped
  bool need_answers = false;  // a line without one is Exit::bad_data
};

struct PolicyPrompts {
  std::vector<PolicyPrompt> prompts;  // one at least
  std::int64_t dropped = 0;
};
// Exit::bad_data names the line that cannot be used.
PolicyPrompts read_prompts(const std::vector<std::string>& files, const Tokenizer& tokenizer,
                           const ChatPrompts& chat, const PromptOptions& options);

}  // namespace mt
