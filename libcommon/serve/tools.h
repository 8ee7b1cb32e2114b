// Tools: the functions that a chat's model may call, and its calls in what it says, in the forms of
// the families:
//   hermes   <tool_call>\n{"name": "f", "arguments": {...}}\n</tool_call>, one after another,
//   behind
//            other text (Qwen, Hermes and many more)
//   llama3   the whole text is {"name": "f", "parameters": {...}}, perhaps behind <|python_tag|>,
//            or several with "; " between them
// What is no whole call is text as any other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/request_fields.h"
#include "text/grammar/byte_grammar.h"

namespace mt {

enum class ToolForm : std::uint8_t { hermes, llama3 };

// The form that a chat template speaks of; nothing: none of these.
std::optional<ToolForm> tool_form_of(std::string_view chat_template);

struct Tools {
  std::vector<std::pair<std::string, std::string>> functions;  // names, and the JSON of parameters
  bool may_call = false;                                       // else calls are text, too
  std::vector<std::string> must_call = {};                     // one of these; empty: none
  bool several = true;                                         // at once
};
// The fields tools, tool_choice and parallel_tool_calls; ApiError, 400, for what is wrong.
Tools read_tools(RequestFields& fields);

// The grammar of calls of these functions alone.  Exit::bad_data where a tool's parameters are no
// schema (text/grammar/json_schema.h).
ByteGrammar grammar_of_calls(const Tools& tools, ToolForm form);

struct ToolCall {
  std::string name, arguments;  // a JSON object
};

// What a model says, in the order in which it does.
class ToolReader {
 public:
  explicit ToolReader(ToolForm form) : form_(form) {}

  struct Said {
    std::string text;
    std::vector<ToolCall> calls;
  };
  // What is certain by now: text in which no call may begin, and whole calls.
  Said take(std::string_view more, bool ended);

 private:
  Said take_hermes(bool ended);
  Said take_llama3(bool ended);

  ToolForm form_;
  std::string held_;
  bool called_ = false;
};

}  // namespace mt
