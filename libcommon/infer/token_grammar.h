// TokenGrammar: which tokens may come next where a text is to fit a grammar
// (text/grammar/byte_grammar.h): those whose bytes lead to a text that can become whole, and those
// that end it where it is.  What is found out about a place of the grammar is kept for all texts.
// Thread-safe; a GrammarMatch, which follows one text, is not.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "text/grammar/byte_grammar.h"
#include "text/tokenizer.h"

namespace mt {

// TokenTrie: the bytes of all tokens that a text is made of, as a tree.  Tokens without bytes, and
// those that begin or end texts, are not among them.
class TokenTrie {
 public:
  TokenTrie(const Tokenizer& tokenizer, std::int64_t vocab_size,
            std::span<const std::int32_t> without);

  // In the order in which one meets them when one goes down first.
  struct Node {
    std::uint8_t byte = 0;
    std::int32_t depth = 0;  // of those whose first byte it is: 0
    std::int32_t past = 0;   // the first node behind all that are below this one
    std::int32_t tokens_begin = 0, tokens_end = 0;  // of tokens(), those that end here
  };
  const std::vector<Node>& nodes() const { return nodes_; }
  std::span<const std::int32_t> tokens(const Node& node) const {
    return std::span(tokens_).subspan(
        static_cast<std::size_t>(node.tokens_begin),
        static_cast<std::size_t>(node.tokens_end - node.tokens_begin));
  }
  const std::string& bytes(std::int32_t token) const {
    return bytes_[static_cast<std::size_t>(token)];
  }
  std::size_t vocab_size() const { return bytes_.size(); }

 private:
  std::vector<std::string> bytes_;  // by token
  std::vector<Node> nodes_;
  std::vector<std::int32_t> tokens_;
};

// A set of tokens.
class TokenMask {
 public:
  TokenMask() = default;
  explicit TokenMask(std::size_t tokens) : words_((tokens + 63) / 64) {}

  void add(std::size_t token) { words_[token / 64] |= std::uint64_t{1} << token % 64; }
  bool has(std::size_t token) const {
    return token / 64 < words_.size() && (words_[token / 64] >> token % 64 & 1) != 0;
  }
  TokenMask& operator|=(const TokenMask& other) {  // of as many tokens
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
    return *this;
  }

 private:
  std::vector<std::uint64_t> words_;
};

class TokenGrammar {
 public:
  // The trie must outlive it.
  TokenGrammar(ByteGrammar grammar, const TokenTrie& trie)
      : grammar_(std::move(grammar)), trie_(trie) {}
  TokenGrammar(const TokenGrammar&) = delete;

  const ByteGrammar& grammar() const { return grammar_; }
  const TokenTrie& trie() const { return trie_; }

  static constexpr std::int64_t kMostSteps = 50'000'000;

  // Adds the tokens that may follow at a place of a text.  `steps` loses one for each byte that is
  // tried and for each place that is looked at for it; Exit::bad_data where none are left.
  void add_allowed(GrammarText& text, const GrammarText::Place& place, TokenMask& to,
                   std::int64_t& steps) const;

 private:
  using Node = ByteGrammar::Node;
  static constexpr std::size_t kMostKept = 1000;  // of nodes, and of places with what is around

  // What is known of a node without what is around its rule: the tokens that stay inside, and the
  // trie's nodes at which the rule may be whole.
  struct Inside {
    TokenMask stay;
    std::vector<std::int32_t> leave;
  };
  const Inside& inside(Node node, std::int64_t& steps) const;
  TokenMask around(GrammarText& text, const GrammarText::Place& place, std::int64_t& steps) const;

  ByteGrammar grammar_;
  const TokenTrie& trie_;
  mutable std::mutex mutex_;  // of the next
  mutable std::map<Node, Inside> inside_;
  mutable std::map<std::vector<Node>, TokenMask>
      around_;  // by the node and where its stack returns
};

class GrammarMatch {
 public:
  explicit GrammarMatch(std::shared_ptr<const TokenGrammar> grammar)
      : grammar_(std::move(grammar)), text_(grammar_->grammar()), places_(text_.at_beginning()) {}

  bool whole() const { return places_.whole; }       // the text may end here
  bool ends() const { return places_.all.empty(); }  // and nothing may follow
  TokenMask allowed();
  void take(std::int32_t token);

 private:
  std::shared_ptr<const TokenGrammar> grammar_;
  GrammarText text_;
  GrammarText::Places places_;
};

}  // namespace mt
