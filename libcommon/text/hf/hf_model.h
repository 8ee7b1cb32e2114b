// HfModel: what cuts the words of a text into tokens, the last step of a tokenizer.json.  Known are
// BPE, Unigram, WordPiece and WordLevel; others are refused by name.  Constant once made;
// thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe/word_split.h"
#include "text/hf/hf_words.h"
#include "text/string_map.h"

namespace mt {

class JsonObject;

class HfModel {
 public:
  virtual ~HfModel() = default;

  // Appends the ids of all words.
  virtual void encode(const HfWords& words, std::vector<std::int32_t>& ids) const = 0;
  // Encodes the words that `split` cuts the text into.
  virtual void encode(std::string_view text, Splitter split, std::vector<std::int32_t>& ids) const;
};

struct HfVocabulary {
  StringMap<std::int32_t> ids;      // of each token
  std::vector<std::string> tokens;  // of each id; empty: it is nobody's
  std::int32_t size = 0;            // of the model's own, as its library counts them
};

// Does the file's model understand bytes as they are, where text/bpe/byte_map.h's characters would
// be written for them?
bool hf_model_takes_bytes(const JsonObject& model, const HfVocabulary& vocabulary);

// BPE, Unigram, WordPiece or WordLevel; files of older versions do not say which.
std::string_view hf_model_type(const JsonObject& model);

// The most ids that may be nobody's: 8 MiB of texts.
inline constexpr std::int64_t kMostHfHoles = 1 << 18;
HfVocabulary read_hf_vocabulary(const JsonObject& model);

struct HfModelReading {
  bool bytes = false;          // words are bytes as they are
  bool serde_numbers = false;  // as serde_json reads them (text/hf/hf_unigram.h)
};
std::unique_ptr<HfModel> make_hf_model(const JsonObject& model, const HfVocabulary& vocabulary,
                                       const HfModelReading& reading);

}  // namespace mt
