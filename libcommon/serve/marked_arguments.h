// Arguments of calls in the forms that write each between marks of its own (ToolForm::qwen_coder
// and glm), in a grammar.
#pragma once

#include <simdjson.h>

#include "serve/tool_reader.h"
#include "text/grammar/byte_grammar.h"

namespace mt {

inline bool marks_arguments(ToolForm form) {
  return form == ToolForm::qwen_coder || form == ToolForm::glm;
}

// Adds the parameters that a schema has in `properties`, in their order, of which those that are
// not `required` may be missing; returns the node behind them.  One whose type is "string" is
// written as it is, without the marks that end it and the call, any other as JSON, whose strings
// have \u003c for '<'.  Exit::bad_data where the schema is of no object, a name would break the
// marks, or a text is to be of a pattern, format or length.
ByteGrammar::Node add_marked_arguments(ByteGrammar& grammar, ByteGrammar::Node from, ToolForm form,
                                       simdjson::dom::element schema);

}  // namespace mt
