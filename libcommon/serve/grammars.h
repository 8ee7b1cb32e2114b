// Grammars: what the texts that requests ask for must fit, compiled once for those that ask alike.
// For the server's thread.
#pragma once

#include <memory>

#include "infer/grammar_cache.h"

namespace mt {

class RequestFields;
enum class ToolForm : std::uint8_t;
struct Tools;

class Grammars {
 public:
  explicit Grammars(const CompletionModel& model) : cache_(model) {}

  // What the field response_format of a request asks for; null: any text.  ApiError, 400, for one
  // that is not as it should be.
  std::shared_ptr<const TokenGrammar> of_response_format(RequestFields& fields);

  // Of calls of the tools that must be called, if there are such; null else.
  std::shared_ptr<const TokenGrammar> of_calls(const Tools& tools, ToolForm form);

 private:
  GrammarCache cache_;
};

}  // namespace mt
