// A tokenizer.json that says by itself all that a tokenizer does, as the tokenizers of Hugging Face
// write it: with the tokens of the folder, and what is put around a text.
#pragma once

#include <string>
#include <vector>

#include "text/hf/hf_added_tokens.h"
#include "text/hf/hf_document.h"
#include "text/hf/hf_template.h"

namespace mt {

// `added`: all added tokens, in the order of their ids; `tokens`: the text of each id.
std::string hf_whole_json(const HfDocument& document, const std::vector<HfAddedToken>& added,
                          const HfTemplate& around, const std::vector<std::string>& tokens);

}  // namespace mt
