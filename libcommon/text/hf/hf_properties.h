// What Hugging Face's tokenizers hold of Unicode by name: the code points of \p{NAME} in a regular
// expression, and the scripts of UnicodeScripts.  The tables are made by
// scripts/make-regex-properties.py from the library itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "text/unicode/code_points.h"

namespace mt {

namespace hf_properties {
struct Range {
  char32_t first, last;
};
struct Name {
  std::string_view name;       // lower case, without blanks, - and _
  std::uint16_t begin, count;  // in kRanges
};
struct ScriptRun {
  char32_t first, last;
  std::uint8_t script;
};
extern const Range kRanges[];
extern const Name kNames[];  // in the order of their names
extern const std::size_t kNameCount;
extern const ScriptRun kScriptRuns[];  // in the order of their code points
extern const std::size_t kScriptRunCount;
}  // namespace hf_properties

// The code points that have a general category, a script, a block ("In...") or a property.  Case,
// blanks, - and _ do not count; nothing: the name is not known.
std::optional<CodePoints> hf_property(std::string_view name);

// The number of a character's script; -1 for what goes with any, such as a space.
int hf_script(char32_t point);

}  // namespace mt
