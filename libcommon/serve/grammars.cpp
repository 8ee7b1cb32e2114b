#include "serve/grammars.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json_object.h"
#include "serve/request_fields.h"
#include "serve/tools.h"
#include "text/grammar/json_schema.h"

namespace mt {

using simdjson::dom::element;

static constexpr const char* kFormat = "response_format";
static constexpr const char* kOutputs = "structured_outputs";

// "json", "regex" or "choice".
std::shared_ptr<const TokenGrammar> Grammars::of_kind(const std::string& field,
                                                      std::string_view kind, element value) {
  std::string_view text;
  const bool is_text = value.get(text) == simdjson::SUCCESS;
  try {
    if (kind == "json")
      return cache_.of_schema(is_text ? std::string(text) : simdjson::minify(value));
    if (kind == "regex") {
      if (!is_text) RequestFields::wrong(field, "a regular expression");
      return cache_.of_pattern(std::string(text));
    }
  } catch (const Error& error) {
    throw ApiError{.message = concat(field, ": ", error.what()), .param = field};
  }
  std::set<std::string> texts;
  simdjson::dom::array list;
  if (value.get(list) != simdjson::SUCCESS || list.size() == 0)
    RequestFields::wrong(field, "a list of texts");
  for (const element one : list) {
    if (one.get(text) != simdjson::SUCCESS || text.empty())
      RequestFields::wrong(field, "a list of texts, none of them empty");
    texts.emplace(text);
  }
  return cache_.of_texts(texts);
}

std::shared_ptr<const TokenGrammar> Grammars::of_response_format(element format) {
  std::string_view type;
  if (format["type"].get(type) != simdjson::SUCCESS ||
      (type != "text" && type != "json_object" && type != "json_schema"))
    RequestFields::wrong(kFormat, "an object with \"type\": text, json_object or json_schema");
  if (type == "text") return nullptr;
  element schema;
  if (type == "json_object" && format["schema"].get(schema) != simdjson::SUCCESS)
    return cache_.find("object", grammar_of_json_object);
  if (type == "json_schema" && format["json_schema"]["schema"].get(schema) != simdjson::SUCCESS)
    RequestFields::wrong(kFormat, "\"json_schema\": {\"name\": ..., \"schema\": ...}");
  return of_kind(kFormat, "json", schema);
}

// An object with one of json, regex, choice and json_object.
std::shared_ptr<const TokenGrammar> Grammars::of_structured_outputs(RequestFields& fields,
                                                                    element asked) {
  static constexpr const char* kExpected =
      "an object with one of \"json\", \"regex\", \"choice\" and \"json_object\": true";
  simdjson::dom::object object;
  if (asked.get(object) != simdjson::SUCCESS) RequestFields::wrong(kOutputs, kExpected);
  std::shared_ptr<const TokenGrammar> grammar;
  for (const auto& [key, value] : object) {
    if (value.is_null()) continue;
    const bool known = key == "json" || key == "regex" || key == "choice";
    if (!known && key != "json_object") {
      if (value.is_bool() && key.starts_with("disable_")) {  // what vLLM's own makers of them do
        fields.add_unknown(concat(kOutputs, ".", key));
        continue;
      }
      RequestFields::wrong(kOutputs, concat(kExpected, ", not ", json_quoted(key)));
    }
    if (grammar) RequestFields::wrong(kOutputs, kExpected);
    if (known) {
      grammar = of_kind(concat(kOutputs, ".", key), key, value);
      continue;
    }
    bool truth = false;
    if (value.get(truth) != simdjson::SUCCESS || !truth) RequestFields::wrong(kOutputs, kExpected);
    grammar = cache_.find("object", grammar_of_json_object);
  }
  if (!grammar) RequestFields::wrong(kOutputs, kExpected);
  return grammar;
}

std::shared_ptr<const TokenGrammar> Grammars::of_request(RequestFields& fields) {
  static constexpr std::pair<const char*, std::string_view> kKinds[] = {{"guided_json", "json"},
                                                                        {"guided_regex", "regex"},
                                                                        {"guided_choice", "choice"},
                                                                        {"json_schema", "json"}};
  for (const char* const name : {"guided_grammar", "grammar", "guided_whitespace_pattern"})
    fields.refuse(name,
                  "is not understood; response_format takes a JSON schema, structured_outputs a "
                  "regex or a list of choices, too");
  fields.pass_over({"guided_decoding_backend"});
  std::shared_ptr<const TokenGrammar> grammar;
  const auto take = [&](const char* name, std::shared_ptr<const TokenGrammar> made) {
    if (grammar && made) RequestFields::wrong(name, "nothing, beside another form of the answer");
    if (made) grammar = std::move(made);
  };
  if (const auto format = fields.any(kFormat)) take(kFormat, of_response_format(*format));
  if (const auto asked = fields.any(kOutputs))
    take(kOutputs, of_structured_outputs(fields, *asked));
  for (const auto& [name, kind] : kKinds)
    if (const auto value = fields.any(name)) take(name, of_kind(name, kind, *value));
  return grammar;
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
