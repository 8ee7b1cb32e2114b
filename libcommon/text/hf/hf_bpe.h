// The BPE of a tokenizer.json: a word's characters are its first symbols, and while some adjacent
// pair has a merge, the leftmost of lowest rank is merged.  A character that is no token becomes
// the tokens <0xHH> of its bytes (byte_fallback, where all of them are there), else the unknown
// token, of which a run is one (fuse_unk), else nothing.  With ignore_merges a word that is a token
// is that token.  Characters behind the first are looked up with continuing_subword_prefix before
// them, the last one with end_of_word_suffix behind it.  dropout is refused.
#pragma once

#include <memory>

#include "text/hf/hf_model.h"

namespace mt {

// Is each byte's character a token, or dropped?
bool hf_bpe_takes_bytes(const JsonObject& model, const HfVocabulary& vocabulary);

std::unique_ptr<HfModel> make_hf_bpe(const JsonObject& model, const HfVocabulary& vocabulary,
                                     bool bytes);

}  // namespace mt
