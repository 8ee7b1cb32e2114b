// HfPreTokenizer: how a tokenizer.json cuts text into the words that its model gets.  Known are
// Sequence, ByteLevel, Split, Digits, Metaspace, Whitespace, WhitespaceSplit, BertPreTokenizer,
// Punctuation, UnicodeScripts, CharDelimiterSplit and FixedLength; others are refused by name.
// Constant once made; thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "text/bpe/word_split.h"
#include "text/hf/hf_words.h"

namespace mt {

class JsonObject;

class HfPreTokenizer {
 public:
  HfPreTokenizer() = default;  // leaves the text one word
  explicit HfPreTokenizer(const JsonObject& object);

  // Cuts `words` further, which may change their text too.
  void apply(HfWords& words) const;

  // Are bytes written as characters (text/bpe/byte_map.h) at the end?  Whoever says that its model
  // takes the bytes themselves gets them.
  bool ends_with_bytes() const { return ends_with_bytes_; }
  void leave_bytes();

  // Does it ask which word begins where the document does?
  bool asks_for_start() const { return asks_for_start_; }

  // The function that does the same as apply() and leave_bytes(), where there is one.
  std::optional<Splitter> splitter() const;

 private:
  using Step = std::function<void(HfWords&)>;

  void add(const JsonObject& object);
  void add_byte_level(const JsonObject& object);
  void add_split(const JsonObject& object);
  void add_metaspace(const JsonObject& object);
  void add_cut(HfMatcher matcher, HfBehavior behavior, bool invert = false);
  void add_splitter(Splitter split, HfBehavior behavior, bool invert);

  std::vector<Step> steps_;
  std::vector<Splitter> splitters_;       // of those steps that are nothing else
  std::vector<std::string> expressions_;  // that the last steps cut by, each match a word
  bool ends_with_bytes_ = false, asks_for_start_ = false;
};

}  // namespace mt
