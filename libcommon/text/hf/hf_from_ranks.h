// A tokenizer.json of ranks: tiktoken's lines (Llama 3's tokenizer.model), or Mistral's
// tekken.json.
//
// tekken.json is an object: vocab, a list of {"rank","token_bytes","token_str"}; config, with
// pattern, default_vocab_size and default_num_special_tokens; special_tokens, a list of
// {"rank","token_str"}, in older files none.  Ids are those of the special tokens, then the ranks.
#pragma once

#include <string>

#include "text/hf/hf_config.h"

namespace mt {

std::string hf_json_from_ranks(const HfConfigFile& file, const HfConfig& config);
std::string hf_json_from_tekken(const HfConfigFile& file);

}  // namespace mt
