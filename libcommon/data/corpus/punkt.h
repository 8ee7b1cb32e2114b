// Punkt's sentences, with all of nltk 3.9.1's ways (PunktSentenceTokenizer.tokenize): candidates
// are periods, question and exclamation marks; the model judges the words around each; closing
// quotes and brackets are moved to the sentence that they close.  A text is split in pieces of
// 1,000,000 characters, as Megatron-LM's tools/preprocess_data.py does (core_v0.12.1).
#pragma once

#include "data/corpus/punkt_model.h"
#include "data/corpus/sentence_splitter.h"

namespace mt {

class PunktSplitter final : public SentenceSplitter {
 public:
  // `keep_newlines`: white space behind a sentence belongs to it, as with upstream's
  // CustomLanguageVars.
  PunktSplitter(const std::string& folder, bool keep_newlines)
      : folder_(folder), model_(folder), keep_newlines_(keep_newlines) {}

  std::string identity() const override { return "Punkt, " + folder_; }
  void split(std::string_view text, std::vector<std::string_view>& sentences) const override;

 private:
  std::string folder_;
  PunktModel model_;
  bool keep_newlines_;
};

}  // namespace mt
