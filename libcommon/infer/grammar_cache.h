// GrammarCache: grammars that texts of a model must fit, each made once for all that ask alike. Not
// thread-safe; texts that have a grammar end before the cache does.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "infer/completion.h"

namespace mt {

class GrammarCache {
 public:
  explicit GrammarCache(const CompletionModel& model) : model_(model) {}

  // The grammar of a key, which is made where it is not there.
  std::shared_ptr<const TokenGrammar> find(const std::string& key,
                                           const std::function<ByteGrammar()>& make);
  // Returns the grammar of JSON that fits a schema, which is a text of JSON itself
  // (text/grammar/json_schema.h).  Throws Exit::bad_data for what is no JSON, and for a schema that
  // is not understood.
  std::shared_ptr<const TokenGrammar> of_schema(const std::string& json);
  // Returns the grammar of what a regular expression matches as a whole (text/grammar/pattern.h).
  std::shared_ptr<const TokenGrammar> of_pattern(const std::string& pattern);
  // One of some texts.
  std::shared_ptr<const TokenGrammar> of_texts(const std::set<std::string>& texts);

 private:
  static constexpr std::size_t kMost = 32;  // kept

  const CompletionModel& model_;
  std::optional<TokenTrie> trie_;  // made when first asked for
  std::list<std::pair<std::string, std::shared_ptr<const TokenGrammar>>> all_;  // last used first
};

}  // namespace mt
