// Tokenizers whose options have a prefix: --retro-gpt-vocab-file is --vocab-file of the prefix
// "--retro-gpt-", as messages name it.
#pragma once

#include <memory>
#include <string_view>

#include "text/tokenizer.h"

namespace mt {

// What text/tokenizer.h says of these, where options begin with `prefix`, dashes included.
void check_no_files_without_type(const TokenizerOptions& options, std::string_view prefix);
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& options, std::string_view prefix);

}  // namespace mt
