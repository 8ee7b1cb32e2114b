// The tokenizer that travels with a checkpoint: copies of its files in the folder `tokenizer`, and
// its identity in the manifest, as
//   {"tokenizer":{"type":"GPT2BPETokenizer","identity":"…","vocab-file":"tokenizer/vocab.json",…}}
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace mt {

struct WrittenFile;  // ckpt/dist_checkpoint.h

// A copy of a tokenizer's file, which may be gone by the time that it is written: its name in a
// checkpoint, as tokenizer/vocab.json.
struct TokenizerCopy {
  std::string name, content;
};
// Reads the files that `options` names.
std::vector<TokenizerCopy> tokenizer_copies(const TokenizerOptions& options);
// Writes them below FOLDER.
std::vector<WrittenFile> write_tokenizer(const std::string& folder,
                                         const std::vector<TokenizerCopy>& copies);
std::string tokenizer_manifest(const TokenizerOptions& options, const std::string& identity);

// The reverse: the options that such a manifest says, without a type if it says none.  Files are
// called as their copies are: tokenizer/vocab.json.
TokenizerOptions tokenizer_of_manifest(const std::string& manifest_extra);
// The identity of the tokenizer that a checkpoint was made with; empty if it does not say.
std::string tokenizer_identity(const std::string& manifest_extra);

}  // namespace mt
