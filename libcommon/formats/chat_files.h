// The files in which a model's chat templates are.
#pragma once

#include <string>
#include <vector>

#include "formats/model_source.h"
#include "text/chat/chat_sources.h"

namespace mt {

std::vector<ChatFile> chat_files_of(const std::vector<Companion>& companions);
// Where the files of a tokenizer that is named are; empty: it has none.
std::string tokenizer_folder(const TokenizerOptions& tokenizer);
// Beside the tokenizer that is named, else those that travel with the model.
std::vector<ChatFile> chat_files_of(const std::vector<Companion>& companions,
                                    const TokenizerOptions& tokenizer);

}  // namespace mt
