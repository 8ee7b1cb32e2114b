// Any bytes as a line of JSON: refused with a word, or its texts can be read, and are the same
// where a member that is no string keeps the line from being read in one pass; and what is copied
// of a string, and where that ends, is the same in all instruction sets.
//
// Parser: libcommon/data/corpus/json_lines.cpp
// Parser: libcommon/data/corpus/plain_json.cpp
// Parser: libcommon/data/corpus/json_copy.cpp
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/input/line_reader.h"
#include "base/utf8.h"
#include "data/corpus/json_copy.h"
#include "data/corpus/json_lines.h"

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

// What is copied from the front of a line, and how many of its bytes are behind that.
static std::pair<std::string, std::ptrdiff_t> copied(mt::JsonCopier copier, std::string line) {
  const std::size_t size = line.size();
  line.resize(size + mt::kJsonPadding);
  std::string room(line.size(), '\0');
  const mt::JsonCopy copy = copier(line.data(), line.data() + size, room.data());
  const std::ptrdiff_t left = line.data() + size - copy.at;
  room.resize(static_cast<std::size_t>(copy.room - room.data()));
  return {left > 0 ? room : "",
          left > 0 ? left : 0};  // all that matters of a string without an end
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const std::string line(reinterpret_cast<const char*>(input), size);
  if (copied(mt::json_copier(), line) != copied(mt::portable_json_copier(), line)) std::abort();
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
