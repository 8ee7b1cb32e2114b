// The Unigram of a tokenizer.json: of all ways to cut a word into pieces the one of the highest sum
// of scores (text/sentencepiece/unigram.h), in double.  A run of unknown characters is one token: a
// piece, if that is one after all, else the tokens <0xHH> of its bytes (byte_fallback, where all of
// them are there), else the unknown token.
//
// The library reads a file's scores by serde_json, which rounds a number's digits and the power of
// ten, and then their quotient: of 17 digits the double may be a neighbour of the nearest one, and
// ties of sums are decided by that.  What is made without a file has the nearest.
#pragma once

#include <memory>

#include "text/hf/hf_model.h"

namespace mt {

HfVocabulary read_hf_unigram_vocabulary(const JsonObject& model);

std::unique_ptr<HfModel> make_hf_unigram(const JsonObject& model, const HfVocabulary& vocabulary,
                                         bool serde_numbers);

}  // namespace mt
