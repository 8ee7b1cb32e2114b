// Masks of tokens are what the grammar says byte by byte, and what is drawn under them fits it.
#include "infer/token_grammar.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <random>

#include "base/error.h"
#include "base/json_parse.h"
#include "infer/completion.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/pattern.h"
#include "text/token_bytes.h"

namespace mt {
namespace {

// All bytes, and some longer tokens, of which one ends the text.
class Pieces : public Tokenizer {
 public:
  Pieces() {
    std::vector<std::string> all;
    for (int byte = 0; byte < 256; ++byte) all.emplace_back(1, static_cast<char>(byte));
    for (const char* piece :
         {"{\"", "\":",      "\": ", "\",",  "\"}",  "\"]",   "],",   "}}",
          "}]}", ", \"",     ":{",   "name", "true", "false", "null", "12",
          "00",  "\xC3\xA9", "é\",", "e\"",  "[]",   "{}",    "",     "name\":\"x"})
      all.emplace_back(piece);
    all.emplace_back("<end>");
    tokens_ = TokenBytes(std::move(all));
  }
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    return tokens_.decode(ids);
  }
  std::unique_ptr<StreamDecoder> stream_decoder() const override {
    return tokens_.stream_decoder();
  }
  std::int32_t vocab_size() const override { return tokens_.size(); }
  std::int32_t eod() const override { return tokens_.size() - 1; }
  std::string_view type() const override { return "Pieces"; }
  const std::string& identity() const override { return identity_; }

 private:
  TokenBytes tokens_;
  std::string identity_ = "pieces";
};

const Pieces kPieces;
const std::int32_t kVocabulary = kPieces.vocab_size() + 3;  // with padding

ByteGrammar grammar_of(std::string_view schema) {
  simdjson::dom::parser parser;
  return grammar_of_schema(parser.parse(simdjson::padded_string(schema)).value());
}

bool leads_on(const ByteGrammar& grammar, const std::string& text) {
  GrammarText at(grammar);
  GrammarText::Places places = at.at_beginning();
  for (const char c : text) places = at.behind(places, static_cast<std::uint8_t>(c));
  return !places.none();
}

constexpr std::string_view kSchemas[] = {
    "true",
    R"({"type":"object","properties":{"name":{"type":"string"},"n":{"type":"integer"}},
        "required":["name"],"additionalProperties":false})",
    R"({"type":"array","items":{"enum":["name","name2",12,1200,true,null]},"maxItems":4})",
    R"({"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{"name":{"$ref":
        "#/$defs/tree"}},"additionalProperties":{"type":"string","maxLength":2}}}})"};

TEST(TokenGrammar, MasksAreWhatTheBytesSay) {
  const TokenTrie trie(kPieces, kVocabulary, {});
  std::mt19937 random(5);
  for (const std::string_view schema : kSchemas) {
    const auto grammar = std::make_shared<TokenGrammar>(grammar_of(schema), trie);
    for (int text = 0; text < 10; ++text) {
      GrammarMatch match(grammar);
      std::string made;
      for (int step = 0; step < 30 && !match.ends(); ++step) {
        const TokenMask mask = match.allowed();
        std::vector<std::int32_t> allowed;
        for (std::int32_t id = 0; id < kVocabulary; ++id) {
          const std::string& bytes = trie.bytes(id);
          const bool fits = !bytes.empty() && leads_on(grammar->grammar(), made + bytes);
          ASSERT_EQ(mask.has(static_cast<std::size_t>(id)), fits) << made << " and " << bytes;
          if (fits) allowed.push_back(id);
        }
        ASSERT_FALSE(allowed.empty()) << made;
        const std::int32_t next = allowed[random() % allowed.size()];
        match.take(next);
        made += trie.bytes(next);
      }
    }
  }
}

// What was broken off is begun again by the next that asks.
TEST(TokenGrammar, WhatTakesTooManyStepsFails) {
  const TokenTrie trie(kPieces, kVocabulary, {});
  const TokenGrammar grammar(grammar_of("true"), trie);
  GrammarText text(grammar.grammar());
  const GrammarText::Places places = text.at_beginning();
  const auto allowed = [&](std::int64_t steps) {
    TokenMask mask(trie.vocab_size());
    for (const GrammarText::Place& place : places.all)
      grammar.add_allowed(text, place, mask, steps);
    return mask;
  };
  EXPECT_THROW(allowed(100), Error);
  const TokenMask mask = allowed(TokenGrammar::kMostSteps);
  for (std::int32_t id = 0; id < kVocabulary; ++id)
    EXPECT_EQ(mask.has(static_cast<std::size_t>(id)),
              !trie.bytes(id).empty() && leads_on(grammar.grammar(), trie.bytes(id)));
}

// Places that no byte follows, of which 1800 lie behind each, are steps as well.
TEST(TokenGrammar, WaysOfNothingAreSteps) {
  const TokenTrie trie(kPieces, kVocabulary, {});
  const TokenGrammar grammar(grammar_of_pattern("(.(|){600})*"), trie);
  GrammarText text(grammar.grammar());
  const GrammarText::Places places = text.at_beginning();
  ASSERT_FALSE(places.all.empty());
  TokenMask mask(trie.vocab_size());
  std::int64_t steps = 100'000;
  EXPECT_THROW(grammar.add_allowed(text, places.all[0], mask, steps), Error);
}

// A completion whose logits say nothing ends where the grammar does, or with the token that ends
// texts, which comes nowhere else.
TEST(TokenGrammar, CompletionsFit) {
  const TokenTrie trie(kPieces, kVocabulary, {});
  const CompletionModel model{.tokenizer = kPieces, .vocab_size = kVocabulary};
  const std::vector<double> logits(static_cast<std::size_t>(kVocabulary));
  int whole = 0;
  for (const std::string_view schema : kSchemas)
    for (std::uint32_t sample = 0; sample < 20; ++sample) {
      const auto grammar = std::make_shared<TokenGrammar>(grammar_of(schema), trie);
      Completion completion(model, "x", {.num_tokens = 60, .grammar = grammar}, 0, sample);
      while (completion.finish() == Completion::Finish::none) completion.choose(logits);
      if (completion.finish() != Completion::Finish::stop) continue;
      ++whole;
      simdjson::dom::parser parser;
      EXPECT_EQ(parse_json(parser, completion.text()).error(), simdjson::SUCCESS)
          << completion.text();
      EXPECT_TRUE(leads_on(grammar->grammar(), completion.text()));
    }
  EXPECT_GT(whole, 20);
}

}  // namespace
}  // namespace mt
