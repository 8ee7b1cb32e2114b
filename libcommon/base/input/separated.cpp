#include "base/input/separated.h"

namespace mt {

std::vector<std::string> separated_fields(std::string_view line, char separator, bool quotes,
                                          bool* open) {
  std::vector<std::string> fields(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  bool quoted = false, begins = true;  // nothing of the field was there
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == separator && !quoted) {
      fields.emplace_back();
      begins = true;
      continue;
    }
    if (quotes && c == '"' && (quoted || begins)) {
      const bool doubled = quoted && i + 1 < line.size() && line[i + 1] == '"';
      if (doubled) fields.back() += line[++i];
      if (!doubled) quoted = !quoted;
    } else {
      fields.back() += c;
    }
    begins = false;
  }
  if (open != nullptr) *open = quoted;
  return fields;
}

}  // namespace mt
