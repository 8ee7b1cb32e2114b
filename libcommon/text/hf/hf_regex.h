// HfRegex: a regular expression of a tokenizer.json that no hand-written splitter knows, matched by
// PCRE2 as Hugging Face's tokenizers match it by Oniguruma.
//
// All of Oniguruma's syntax is taken but what PCRE2 cannot do or reads in another way: absent
// groups, conditions, \y, bytes above 127 by number, lookbehind of no fixed length.  PCRE2's tables
// of Unicode are not asked, but by a back reference that passes over case: sets of characters are
// written out from text/hf/hf_properties.h.
//
// Constant once made; thread-safe.  A search that takes more than ten million steps, or a GiB, is
// Exit::bad_data.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/hf/hf_words.h"

struct pcre2_real_code_8;

namespace mt {

class JsonObject;

class HfRegex {
 public:
  // `where` refuses what is not taken.
  HfRegex(std::string_view expression, const JsonObject& where);

  // Appends the parts of `word`, well-formed UTF-8, which together are the word; a match may be
  // empty.
  void match(std::string_view word, std::vector<HfPart>& parts) const;

  // `text` with `content` in the place of each match; of an empty text nothing is one.
  std::string replace(std::string_view text, std::string_view content) const;

 private:
  std::string expression_;  // for errors
  std::shared_ptr<const pcre2_real_code_8> code_;
};

}  // namespace mt
