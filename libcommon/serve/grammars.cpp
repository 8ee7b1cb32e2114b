#include "serve/grammars.h"

#include <algorithm>

#include "base/error.h"
#include "serve/request_fields.h"
#include "serve/tools.h"
#include "text/grammar/json_schema.h"

namespace mt {

using simdjson::dom::element;

static constexpr const char* kField = "response_format";

std::shared_ptr<const TokenGrammar> Grammars::kept(const std::string& key,
                                                   const std::function<ByteGrammar()>& make) {
  auto found = std::ranges::find(all_, key, [](const auto& one) { return one.first; });
  if (found == all_.end()) {
    if (!trie_) trie_.emplace(model_.tokenizer, model_.vocab_size, model_.end_tokens);
    all_.emplace_front(key, std::make_shared<TokenGrammar>(make(), *trie_));
    if (all_.size() > kMost) all_.pop_back();
  } else {
    all_.splice(all_.begin(), all_, found);
  }
  return all_.front().second;
}

std::shared_ptr<const TokenGrammar> Grammars::of_response_format(RequestFields& fields) {
  const std::optional<element> value = fields.any(kField);
  if (!value) return nullptr;
  std::string_view type;
  if ((*value)["type"].get(type) != simdjson::SUCCESS ||
      (type != "text" && type != "json_object" && type != "json_schema"))
    RequestFields::wrong(kField, "an object with \"type\": text, json_object or json_schema");
  if (type == "text") return nullptr;
  if (type == "json_object") return kept("object", grammar_of_json_object);
  element schema;
  if ((*value)["json_schema"]["schema"].get(schema) != simdjson::SUCCESS)
    RequestFields::wrong(kField, "\"json_schema\": {\"name\": ..., \"schema\": ...}");
  try {
    return kept(concat("schema ", simdjson::minify(schema)),
                [&] { return grammar_of_schema(schema); });
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
    return kept(key, [&] { return grammar_of_calls(tools, form); });
  } catch (const Error& error) {
    throw ApiError{.message = concat("tools: ", error.what()), .param = "tools"};
  }
}

}  // namespace mt
