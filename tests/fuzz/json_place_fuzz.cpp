// Any bytes as JSON: what simdjson reads has no place of a mistake, what it refuses has one, but
// for what is JSON beyond its limits.
//
// Seeds: testdata/huggingface
// Parser: libcommon/base/json_place.cpp
#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json_place.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(input), size);
  simdjson::dom::parser parser;
  const simdjson::error_code error = parser.parse(simdjson::padded_string(text)).error();
  const bool is_beyond_limits = error == simdjson::DEPTH_ERROR || error == simdjson::NUMBER_ERROR;
  const bool has_place = !mt::json_place(text).empty();
  if (has_place ? error == simdjson::SUCCESS : error != simdjson::SUCCESS && !is_beyond_limits)
    std::abort();
  return 0;
}
