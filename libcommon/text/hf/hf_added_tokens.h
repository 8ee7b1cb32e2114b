// HfAddedTokens: the tokens of a tokenizer.json that are found in a text before its model sees it,
// such as <|endoftext|>: the leftmost first, of those the longest.  Constant once made;
// thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/hf/hf_model.h"
#include "text/sentencepiece/byte_trie.h"

namespace mt {

struct HfAddedToken {
  std::int32_t id = 0;
  std::string content;       // never empty
  bool single_word = false;  // only between what is no part of a word
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and behind it
  bool normalized = false;   // is looked for in the text that the normalizer has made
  bool special = false;

  bool operator==(const HfAddedToken&) const = default;
};

// The added tokens of a tokenizer as they come, one after another.
class HfAddedVocabulary {
 public:
  // `vocabulary` is the model's, and grows.  As in tokenizers of `version` 4 or 5 of transformers.
  HfAddedVocabulary(HfVocabulary& vocabulary, int version)
      : vocabulary_(vocabulary), size_(vocabulary.size), version_(version) {}

  // The id is that of the text, if it has one, else the next, whatever the token says.  One that is
  // there already takes the new flags; one without text is passed over.
  void add(HfAddedToken token);

  // In the order of their ids.
  std::vector<HfAddedToken> tokens() const;
  // As they are looked for; of those with the same text the first counts.  Version 4 looks for
  // special ones first, and before or behind the normalizer as each was first said to be; for the
  // others in each way that one was said to be.  What else a match is comes from the last flags,
  // but that one is special which ever was.
  std::vector<HfAddedToken> searched() const;
  // Whether one with this id was ever said to be normalized: version 5 writes it so from then on.
  bool was_normalized(std::int32_t id) const { return normalized_.contains(id); }

 private:
  HfVocabulary& vocabulary_;
  std::int32_t size_;       // of the model's own vocabulary
  std::int32_t last_ = -1;  // the greatest id of an added token
  int version_;
  std::map<std::int32_t, HfAddedToken> tokens_;
  std::set<std::int32_t> normalized_;
  std::vector<HfAddedToken> special_, others_;  // of version 4: as first said, and as each was
  std::set<std::string> special_texts_;
};

class HfAddedTokens {
 public:
  HfAddedTokens() = default;
  // The first counts of tokens with the same text.  With `no_special` those that are special are
  // passed over where they are found.
  explicit HfAddedTokens(std::vector<HfAddedToken> tokens, bool no_special = false);

  // A part of a text: a token, or what is between two of them.
  struct Part {
    std::size_t begin, end;
    std::int32_t id = -1;  // -1: no token
  };
  // Overwrites `parts`; what is between tokens is never empty, and not all of it need be there.
  void find(std::string_view text, std::vector<Part>& parts) const;

  bool empty() const { return tokens_.empty(); }

 private:
  std::vector<HfAddedToken> tokens_;
  ByteTrie trie_;                        // from content to index
  std::array<bool, 256> first_bytes_{};  // of a token
  bool no_special_ = false;
};

}  // namespace mt
