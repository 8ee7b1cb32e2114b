// Any bytes as a line of JSON: refused with a word, or its texts can be read.
// Parser: libcommon/data/json_lines.cpp
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/utf8.h"
#include "data/json_lines.h"
#include "data/line_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  static mt::JsonLineParser parser({"text", "b"});
  std::vector<char> line(size + mt::LineBlock::kPadding);
  if (size > 0) std::memcpy(line.data(), input, size);
  if (!parser.parse({line.data(), size}).empty()) return 0;
  for (const auto& texts : parser.texts())
    for (const std::string_view text : texts)
      if (!mt::is_valid_utf8(text)) std::abort();
  return 0;
}
