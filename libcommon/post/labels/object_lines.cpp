#include "post/labels/object_lines.h"

#include "base/input/line_reader.h"
#include "base/json_parse.h"
#include "base/json_place.h"
#include "post/labels/labelled_set.h"

namespace mt {

void for_each_object(const std::vector<std::string>& files,
                     const std::function<void(const JsonObject&, std::int64_t)>& body) {
  LineReader reader({.inputs = expand_inputs(files), .are_json = true});
  LineBlock block;
  simdjson::dom::parser parser;
  while (reader.next(block))
    for_each_line(block, [&](std::string_view line, std::int64_t number) {
      if (strip(line).empty()) return;
      const std::string place = concat(block.file, ":", number);
      check_begins_object(line, place);
      simdjson::dom::element root;
      if (const auto error = parse_json(parser, line).get(root)) fail_json(line, place, error);
      body(JsonObject(root, place), number);
    });
}

}  // namespace mt
