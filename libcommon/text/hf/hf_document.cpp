#include "text/hf/hf_document.h"

#include "base/allowance.h"
#include "base/json_parse.h"

namespace mt {

simdjson::dom::element HfDocument::parse(Part& part, std::string_view json,
                                         const std::string& file) {
  if (const auto error = parse_json(part.parser, json).get(part.value))
    fail_json(json, file, error, "a tokenizer.json");
  return part.value;
}

HfDocument::HfDocument(std::string_view content, const std::string& file)
    : whole_([&] {
        // Real ones are lists of short strings.
        Allowance(8 * content.size()).take_json(content, file);
        return std::make_unique<Part>();
      }()),
      root_(parse(*whole_, content, file), file) {}

void HfDocument::set(const std::string& name, const std::string& json) {
  auto part = std::make_unique<Part>();
  parse(*part, json, concat(root_.where(), ": ", name));
  others_[name] = std::move(part);
}

std::string HfDocument::changes() const {
  std::string all;
  for (const auto& [name, part] : others_)
    all += concat(name, "=", simdjson::minify(part->value), "\n");
  return all;
}

bool HfDocument::has(std::string_view name) const {
  const auto other = others_.find(name);
  return other == others_.end() ? root_.has(name) : !other->second->value.is_null();
}

JsonObject HfDocument::object(std::string_view name) const {
  const auto other = others_.find(name);
  if (other == others_.end()) return root_.object(name);
  return {other->second->value, concat(root_.where(), ": ", name)};
}

std::vector<JsonObject> HfDocument::objects(std::string_view name) const {
  return has(name) ? root_.objects(name) : std::vector<JsonObject>();
}

}  // namespace mt
