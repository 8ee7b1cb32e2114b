// What transformers does with decoded text where clean_up_tokenization_spaces is set: spaces before
// signs and the endings of English words go, as WordPiece puts them there.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace mt {

void hf_clean_up(std::string& text);

// A decoder that cleans up what another gives.
std::unique_ptr<StreamDecoder> hf_clean_up(std::unique_ptr<StreamDecoder> decoder);

}  // namespace mt
