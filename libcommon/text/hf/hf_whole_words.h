// The models of a tokenizer.json that look words up: WordPiece (text/bert/word_piece.h) and
// WordLevel, whose words are tokens or unknown.
#pragma once

#include <memory>

#include "text/hf/hf_model.h"

namespace mt {

std::unique_ptr<HfModel> make_hf_word_piece(const JsonObject& model,
                                            const HfVocabulary& vocabulary);
std::unique_ptr<HfModel> make_hf_word_level(const JsonObject& model,
                                            const HfVocabulary& vocabulary);

}  // namespace mt
