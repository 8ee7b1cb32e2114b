#include "serve/grammars.h"

#include <algorithm>

#include "base/error.h"
#include "serve/request_fields.h"
#include "serve/tools.h"
#include "text/grammar/json_schema.h"

namespace mt {

using simdjson::dom::element;

static constexpr const char* kField = "response_format";

std::shared_ptr<const TokenGrammar> Grammars::of_response_format(RequestFields& fields) {
  const std::optional<element> value = fields.any(kField);
  if (!value) return nullptr;
  std::string_view type;
  if ((*value)["type"].get(type) != simdjson::SUCCESS ||
      (type != "text" && type != "json_object" && type != "json_schema"))
    RequestFields::wrong(kField, "an object with \"type\": text, json_object or json_schema");
  if (type == "text") return nullptr;
  if (type == "json_object") return cache_.find("object", grammar_of_json_object);
  element schema;
  if ((*value)["json_schema"]["schema"].get(schema) != simdjson::SUCCESS)
    RequestFields::wrong(kField, "\"json_schema\": {\"name\": ..., \"schema\": ...}");
  try {
    return cache_.of_schema(simdjson::minify(schema));
  } catch (const Error& error) {
    throw ApiError{.message = concat(kField, ": ", error.what()), .param = kField};
  }
}

std::shared_ptr<const TokenGrammar> Grammars::of_calls(const Tools& tools, ToolForm form) {
  if (tools.must_call.empty()) return nullptr;
  std::string key = concat("calls ", static_cast<int>(form), tools.several ? " several" : " one");
  for (const auto& [name, parameters] : tools.functions)
    if (std::ranges::count(tools.must_call, name) > 0) key += concat("\n", name, "\n", parameters);
  try {
    return cache_.find(key, [&] { return grammar_of_calls(tools, form); });
  } catch (const Error& error) {
    throw ApiError{.message = concat("tools: ", error.what()), .param = "tools"};
  }
}

}  // namespace mt
