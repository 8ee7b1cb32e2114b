// Tools: the functions that a chat's model may call, as its request has them, and the grammar of
// calls that must be.
#pragma once

#include <string>
#include <vector>

#include "serve/request_fields.h"
#include "serve/tool_reader.h"
#include "text/grammar/byte_grammar.h"

namespace mt {

struct Tools {
  ToolFunctions functions;
  bool may_call = false;                    // else calls are text, too
  std::vector<std::string> must_call = {};  // one of these; empty: none
  bool several = true;                      // at once
};
// The fields tools, tool_choice and parallel_tool_calls; ApiError, 400, for what is wrong.
Tools read_tools(RequestFields& fields);

// The grammar of calls of the functions that must be called alone.  Exit::bad_data where a tool's
// parameters are no schema (text/grammar/json_schema.h), or none that the form can write
// (serve/marked_arguments.h).
ByteGrammar grammar_of_calls(const Tools& tools, ToolForm form);

}  // namespace mt
