// HfNormalizer: what a tokenizer.json makes of a text before it is cut.  Known are Sequence, NFC,
// NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Prepend, Replace, Precompiled, Nmt, ByteLevel
// and BertNormalizer; others are refused by name.  Constant once made; thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace mt {

class JsonObject;

// What BertNormalizer does, by the names of its members in the file.
struct HfBertNormalizer {
  bool clean_text = true;            // drops control characters, makes spaces of white space
  bool handle_chinese_chars = true;  // puts spaces around ideographs
  bool strip_accents = true, lowercase = true;

  void apply(std::string& text) const;  // which is and stays well-formed UTF-8
};

class HfNormalizer {
 public:
  HfNormalizer() = default;  // changes nothing
  explicit HfNormalizer(const JsonObject& object);

  void apply(std::string& text) const;  // which is and stays well-formed UTF-8

  bool empty() const { return steps_.empty(); }
  // Does what it makes begin with what was made of the text's first character, or with a space?  A
  // replacement counts as made of the last character that it stands for.
  bool keeps_start() const { return keeps_start_; }

 private:
  using Step = std::function<void(std::string&)>;

  void add(const JsonObject& object);

  std::vector<Step> steps_;
  bool keeps_start_ = true;
};

}  // namespace mt
