// parse_request: the JSON of a request's body.  NaN is refused: it would be a field as good as
// absent.
#pragma once

#include <simdjson.h>

#include <algorithm>
#include <string_view>

#include "base/json_parse.h"

namespace mt {

inline constexpr std::size_t kMostDepth = 64;  // of objects and lists in each other

inline simdjson::simdjson_result<simdjson::dom::element> parse_request(
    simdjson::dom::parser& parser, std::string_view json) {
  if (const simdjson::error_code error =
          parser.allocate(std::max<std::size_t>(json.size(), 256), kMostDepth))
    return error;
  return parse_json(parser, json, Nan::refused);
}

}  // namespace mt
