// What version 5 of transformers makes of a tokenizer.json by its class alone: normalizer,
// pre-tokenizer, decoder and all of the model but its vocabulary and merges.
#pragma once

#include "text/hf/hf_config.h"
#include "text/hf/hf_document.h"

namespace mt {

// For a class with HfClass::from_nothing.  Fails where its model is of another kind.
void make_hf_anew(HfDocument& document, const HfConfig& config);

// Is a pre-tokenizer a ByteLevel, or has one?
bool is_hf_byte_level(const JsonObject& pre_tokenizer);

}  // namespace mt
