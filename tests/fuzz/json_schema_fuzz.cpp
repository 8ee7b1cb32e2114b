// Any bytes up to a line "---" as a JSON schema, or behind "/" as a regular expression, and those
// behind it as choices among the bytes that may come next: refused with a word, or a grammar that
// leads to no dead end.
//
// Parser: libcommon/text/grammar/json_schema.cpp
// Parser: libcommon/text/grammar/json_text.cpp
// Parser: libcommon/text/grammar/json_values.cpp
// Parser: libcommon/text/grammar/pattern.cpp
// Parser: libcommon/text/grammar/byte_grammar.cpp
#include "text/grammar/json_schema.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/json_parse.h"
#include "text/grammar/pattern.h"

static void follow(const mt::ByteGrammar& grammar, std::string_view choices) {
  mt::GrammarText text(grammar);
  mt::GrammarText::Places places = text.at_beginning();
  for (const char c : choices) {
    if (places.all.empty()) break;
    const auto choice = static_cast<std::uint8_t>(c);
    const auto& ways = grammar.ways(places.all[choice % places.all.size()].node).bytes;
    const mt::ByteGrammar::Bytes& way = ways[choice / 16 % ways.size()];
    places = text.behind(places, choice % 2 == 0 ? way.low : way.high);
    if (places.none()) std::abort();
  }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(bytes), size);
  constexpr std::string_view kEnd = "\n---\n";
  const std::size_t end = std::min(all.find(kEnd), size);
  const std::string_view asked = all.substr(0, end),
                         choices =
                             end == size ? all : all.substr(std::min(size, end + kEnd.size()));
  simdjson::dom::parser parser;
  simdjson::dom::element schema;
  try {
    if (asked.starts_with('/'))
      follow(mt::grammar_of_pattern(asked.substr(1)), choices);
    else if (parser.allocate(size + 256, 64) == simdjson::SUCCESS &&
             mt::parse_json(parser, asked).get(schema) == simdjson::SUCCESS)
      follow(mt::grammar_of_schema(schema), choices);
  } catch (const mt::Error&) {
    // Refused, with a word.
  }
  return 0;
}
