#include "infer/grammar_cache.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_parse.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/pattern.h"

namespace mt {

std::shared_ptr<const TokenGrammar> GrammarCache::find(const std::string& key,
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

std::shared_ptr<const TokenGrammar> GrammarCache::of_schema(const std::string& json) {
  return find(concat("schema ", json), [&] {
    simdjson::dom::parser parser;
    simdjson::dom::element schema;
    if (parse_json(parser, json).get(schema) != simdjson::SUCCESS)
      fail(Exit::bad_data, "malformed JSON");
    return grammar_of_schema(schema);
  });
}

std::shared_ptr<const TokenGrammar> GrammarCache::of_pattern(const std::string& pattern) {
  return find(concat("pattern ", pattern), [&] { return grammar_of_pattern(pattern); });
}

std::shared_ptr<const TokenGrammar> GrammarCache::of_texts(const std::set<std::string>& texts) {
  std::string key = "texts";
  for (const std::string& text : texts) key += concat(" ", text.size(), " ", text);
  return find(key, [&] { return grammar_of_texts(texts); });
}

}  // namespace mt
