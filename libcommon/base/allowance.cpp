#include "base/allowance.h"

#include "base/error.h"

namespace mt {

void Allowance::take(std::uint64_t bytes, const std::string& name) {
  if (bytes > left_)
    fail(Exit::bad_data, name, ": what it describes takes more memory than a file of its size may");
  left_ -= bytes;
}

// simdjson::dom: the text and a copy of it; one of its strings, each with 5 bytes more; 4 bytes for
// each place where a value or a mark begins; 8 for a string and a bracket, 16 for a number.
void Allowance::take_json(std::string_view text, const std::string& name) {
  std::uint64_t bytes = 3 * text.size();
  for (const char c : text) {
    if (c == ',' || c == ':') bytes += 4 + 4 + 16;
    if (c == '[' || c == '{') bytes += 4 + 16;
    if (c == ']' || c == '}') bytes += 4 + 8;
    if (c == '"') bytes += 3;
  }
  take(bytes, name);
}

}  // namespace mt
