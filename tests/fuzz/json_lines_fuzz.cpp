// Any bytes as a line of JSON: refused with a word, or its texts can be read, and are the same
// where a member that is no string keeps the line from being read in one pass.
//
// Parser: libcommon/data/json_lines.cpp
// Parser: libcommon/data/plain_json.cpp
// Parser: libcommon/data/json_copy.cpp
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "data/json_lines.h"
#include "data/line_reader.h"

using Texts = std::vector<std::vector<std::string>>;

// Nothing where the line is refused.
static std::optional<Texts> texts_in(std::string line) {
  static mt::JsonLineParser parser({"text", "b"});
  const std::size_t size = line.size();
  line.resize(size + mt::LineBlock::kPadding);
  if (!parser.parse({line.data(), size}).empty()) return std::nullopt;
  Texts copies;
  for (const auto& texts : parser.texts()) copies.emplace_back(texts.begin(), texts.end());
  return copies;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const std::string line(reinterpret_cast<const char*>(input), size);
  const auto texts = texts_in(line);
  if (!texts) return 0;
  for (const auto& of_key : *texts)
    for (const std::string& text : of_key)
      if (!mt::is_valid_utf8(text)) std::abort();
  const std::size_t object = line.find('{');
  if (texts_in(line.substr(0, object + 1) + "\"x\":0," + line.substr(object + 1)) != texts)
    std::abort();
  return 0;
}
