#include <algorithm>
#include <string>

#include "text/hf/hf_properties.h"

namespace mt {

using namespace hf_properties;

std::optional<CodePoints> hf_property(std::string_view name) {
  std::string plain;
  for (const char c : name)
    if (c != ' ' && c != '-' && c != '_')
      plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  const Name* const end = kNames + kNameCount;
  const Name* const found = std::lower_bound(
      kNames, end, plain,
      [](const Name& known, std::string_view wanted) { return known.name < wanted; });
  if (found == end || found->name != plain) return std::nullopt;
  std::vector<CodePoints::Range> ranges;
  for (std::size_t i = 0; i < found->count; ++i) {
    const auto& [first, last] = kRanges[found->begin + i];
    ranges.emplace_back(first, last);
  }
  return CodePoints(std::move(ranges));
}

int hf_script(char32_t point) {
  const ScriptRun* const end = kScriptRuns + kScriptRunCount;
  const ScriptRun* const run =
      std::lower_bound(kScriptRuns, end, point,
                       [](const ScriptRun& known, char32_t wanted) { return known.last < wanted; });
  return run == end || point < run->first ? -1 : run->script;
}

}  // namespace mt
