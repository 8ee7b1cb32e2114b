// HfRegex: a regular expression of a tokenizer.json that no hand-written splitter knows, matched by
// PCRE2 as Hugging Face's tokenizers match it by Oniguruma.
//
// The two agree where this takes an expression at all: characters, classes, \s \d \p{...} and their
// opposites, groups, alternatives, lookaround, * + ? {n,m} with ? and + behind the first three, ^ $
// and a dot; (?i:...) around letters.  What they read differently, or is not needed, is refused.
// PCRE2's tables of Unicode are not asked: classes are written out from text/unicode/unicode.h.
//
// Constant once made; thread-safe.  A search that takes more than ten million steps is
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

  // `text` with `content` in the place of each match.
  std::string replace(std::string_view text, std::string_view content) const;

 private:
  std::string expression_;  // for errors
  std::shared_ptr<const pcre2_real_code_8> code_;
};

}  // namespace mt
