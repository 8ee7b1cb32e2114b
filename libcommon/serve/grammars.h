// Grammars: what the texts that requests ask for must fit, compiled once for those that ask alike.
// For the server's thread.
#pragma once

#include <simdjson.h>

#include <memory>
#include <string>
#include <string_view>

#include "infer/grammar_cache.h"

namespace mt {

class RequestFields;
enum class ToolForm : std::uint8_t;
struct Tools;

class Grammars {
 public:
  explicit Grammars(const CompletionModel& model) : cache_(model) {}

  // What a request asks for, by one of OpenAI's response_format, vLLM's structured_outputs,
  // guided_json, guided_regex and guided_choice, and llama.cpp's json_schema; null: any text.
  // ApiError, 400, for one that is not as it should be, and for two.
  std::shared_ptr<const TokenGrammar> of_request(RequestFields& fields);

  // Allows the calls of the tools that must be called; null where none must.
  std::shared_ptr<const TokenGrammar> of_calls(const Tools& tools, ToolForm form);

 private:
  using Element = simdjson::dom::element;
  std::shared_ptr<const TokenGrammar> of_response_format(Element format);
  std::shared_ptr<const TokenGrammar> of_structured_outputs(RequestFields& fields, Element asked);
  std::shared_ptr<const TokenGrammar> of_kind(const std::string& field, std::string_view kind,
                                              Element value);

  GrammarCache cache_;
};

}  // namespace mt
