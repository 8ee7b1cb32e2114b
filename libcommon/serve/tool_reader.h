// ToolReader: the calls of functions in what a chat's model says, in the forms of the families:
//   hermes      <tool_call>\n{"name": "f", "arguments": {...}}\n</tool_call>, one after another,
//               behind other text (Qwen 2.5 and 3, Hermes and many more)
//   llama3      the whole text is {"name": "f", "parameters": {...}}, perhaps behind
//               <|python_tag|>, or several with "; " between them
//   mistral     [TOOL_CALLS][{"name": "f", "arguments": {...}}, ...], behind other text
//   mistral_args  [TOOL_CALLS]f[ARGS]{...}, one after another; [CALL_ID] and an id before [ARGS]
//   deepseek    <｜tool▁calls▁begin｜>, calls, <｜tool▁calls▁end｜>; each call is
//               <｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{...}\n```<｜tool▁call▁end｜>
//   deepseek_bare  each is <｜tool▁call▁begin｜>f<｜tool▁sep｜>{...}<｜tool▁call▁end｜> (3.1)
//   qwen_coder  <tool_call>\n<function=f>\n<parameter=a>\n...\n</parameter>\n</function>\n
//               </tool_call> (Qwen3-Coder, Nemotron 3)
//   glm         <tool_call>f\n<arg_key>a</arg_key>\n<arg_value>...</arg_value>\n</tool_call>
// In the last two a value is what its parameter's schema says: a text, unless that has another
// type and the value is its JSON; in the others a mark ends nothing in the JSON of a call.  What is
// no whole call is text as any other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mt {

enum class ToolForm : std::uint8_t {
  hermes,
  llama3,
  mistral,
  mistral_args,
  deepseek,
  deepseek_bare,
  qwen_coder,
  glm,
  channels  // gpt-oss's, which ChannelReader reads (serve/chat_reader.h)
};

// The form that a chat template speaks of; nothing: none of these.
std::optional<ToolForm> tool_form_of(std::string_view chat_template);

using ToolFunctions =
    std::vector<std::pair<std::string, std::string>>;  // names, JSON of parameters

struct ToolCall {
  std::string name, arguments;  // a JSON object
};

// What a model says, in the order in which it does.
class ToolReader {
 public:
  explicit ToolReader(ToolForm form, ToolFunctions functions = {})
      : form_(form), functions_(std::move(functions)) {}

  struct Said {
    std::string text;
    std::vector<ToolCall> calls;
  };
  // What is certain by now: text in which no call may begin, and whole calls.
  Said take(std::string_view more, bool ended);

 private:
  Said take_marked(bool ended);
  Said take_llama3(bool ended);
  std::vector<ToolCall> calls_inside(std::string_view text) const;
  std::string arguments_of(
      std::string_view name,
      const std::vector<std::pair<std::string_view, std::string_view>>& given) const;

  ToolForm form_;
  ToolFunctions functions_;
  std::string held_;
  bool called_ = false;
};

// How much of the end of a text may be the beginning of a mark.
std::size_t begun_mark(std::string_view text, std::string_view mark);

}  // namespace mt
