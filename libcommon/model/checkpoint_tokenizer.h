// The tokenizer that travels with a checkpoint: copies of its files in the folder `tokenizer`, and
// its identity in the manifest, as
//   {"tokenizer":{"type":"GPT2BPETokenizer","identity":"…","vocab-file":"tokenizer/vocab.json",…}}
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ckpt/dist_checkpoint.h"
#include "text/tokenizer.h"

namespace mt {

// Copies the files that `options` names into FOLDER/tokenizer.
std::vector<WrittenFile> write_tokenizer(const std::string& folder,
                                         const TokenizerOptions& options);
std::string tokenizer_manifest(const TokenizerOptions& options, const std::string& identity);

// The reverse: the options that such a manifest says, without a type if it says none.  Files are
// called as their copies are: tokenizer/vocab.json.
TokenizerOptions tokenizer_of_manifest(const std::string& manifest_extra);
// The identity of the tokenizer that a checkpoint was made with; empty if it does not say.
std::string tokenizer_identity(const std::string& manifest_extra);

}  // namespace mt
