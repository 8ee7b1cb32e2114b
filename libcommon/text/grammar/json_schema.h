// Grammars of JSON: of any object, and of what fits a JSON schema, whose keywords may be: type
// (also a list), properties, required, additionalProperties, items, prefixItems, minItems,
// maxItems, enum, const, anyOf, oneOf (as anyOf), $ref to "#", "#/$defs/..." and
// "#/definitions/...", minLength, maxLength, pattern, format, minimum, maximum, exclusiveMinimum,
// exclusiveMaximum, and what only describes.  Members come in the order of `properties`, those that
// it does not name behind them. How the text is written: json_text.h.  Exit::bad_data, beginning
// with the place in the schema, for a keyword that is not among these, is not as it should be, or
// stands beside one that it cannot.
#pragma once

#include <simdjson.h>

#include "text/grammar/byte_grammar.h"

namespace mt {

ByteGrammar grammar_of_json_object();
ByteGrammar grammar_of_schema(simdjson::dom::element schema);
// Adds what fits a schema to a grammar, which is to be finished then; returns the node
// behind it.  root: the schema that it is a part of, or itself, which $ref is about.
ByteGrammar::Node add_schema(ByteGrammar& grammar, ByteGrammar::Node from,
                             simdjson::dom::element schema, simdjson::dom::element root);

}  // namespace mt
