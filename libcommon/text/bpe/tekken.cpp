#include "text/bpe/tekken.h"

#include <simdjson.h>

#include <array>

#include "base/allowance.h"
#include "base/error.h"
#include "base/json_object.h"
#include "base/json_parse.h"

namespace mt {
namespace {

// Of files that name none.
constexpr std::array kOldSpecials = {"<unk>",
                                     "<s>",
                                     "</s>",
                                     "[INST]",
                                     "[/INST]",
                                     "[AVAILABLE_TOOLS]",
                                     "[/AVAILABLE_TOOLS]",
                                     "[TOOL_RESULTS]",
                                     "[/TOOL_RESULTS]",
                                     "[TOOL_CALLS]",
                                     "[IMG]",
                                     "<pad>",
                                     "[IMG_BREAK]",
                                     "[IMG_END]",
                                     "[PREFIX]",
                                     "[MIDDLE]",
                                     "[SUFFIX]",
                                     "[SYSTEM_PROMPT]",
                                     "[/SYSTEM_PROMPT]",
                                     "[TOOL_CONTENT]"};

constexpr std::int64_t kMostSpecials = 1 << 16;

std::vector<std::string> specials_of(const JsonObject& root, std::int64_t count) {
  std::vector<std::string> specials;
  if (root.has("special_tokens")) {
    const std::vector<JsonObject> list = root.objects("special_tokens");
    specials.resize(list.size());
    for (const JsonObject& token : list) {
      const std::int64_t rank = token.number("rank", std::ssize(list) - 1);
      std::string& text = specials[static_cast<std::size_t>(rank)];
      if (!text.empty()) token.refuse("\"rank\" ", rank, " is there twice");
      text = token.text("token_str");
      if (text.empty()) token.refuse("\"token_str\" is empty");
    }
  } else {
    specials.assign(kOldSpecials.begin(), kOldSpecials.end());
  }
  while (std::ssize(specials) < count)
    specials.push_back(concat("<SPECIAL_", specials.size(), ">"));
  return specials;
}

}  // namespace

std::optional<TekkenConfig> tekken_config(std::string_view content, const std::string& path) {
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  if (first == content.npos || content[first] != '{') return std::nullopt;
  simdjson::dom::parser parser;
  simdjson::dom::element element;
  Allowance(8 * content.size()).take_json(content, path);
  if (const auto error = parse_json(parser, content).get(element)) fail_json(content, path, error);
  const JsonObject root(element, path);
  if (!root.has("config")) return TekkenConfig();
  const JsonObject config = root.object("config");
  const auto number = [&](const char* name, std::int64_t most) {
    return config.has(name) ? config.number(name, most) : 0;
  };
  return TekkenConfig{
      .pattern = std::string(config.text_or("pattern", "")),
      .vocab_size = number("default_vocab_size", 1 << 30),
      .specials = specials_of(root, number("default_num_special_tokens", kMostSpecials))};
}

}  // namespace mt
