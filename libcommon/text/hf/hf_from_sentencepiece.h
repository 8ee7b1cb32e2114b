// A tokenizer.json of a SentencePiece model.  Known are the ways of LlamaTokenizer, GemmaTokenizer
// and T5Tokenizer, and that of any other class where its pieces are its ids.
#pragma once

#include <string>
#include <string_view>

#include "text/hf/hf_config.h"

namespace mt {

// The class of a model of which nothing says it.
std::string_view hf_class_of_sentencepiece(const HfConfigFile& file);

std::string hf_json_from_sentencepiece(const HfConfigFile& file, const HfConfig& config,
                                       int version);

}  // namespace mt
