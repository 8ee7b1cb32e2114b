// The tokenizer that travels with a checkpoint: copies of its files in the folder `tokenizer`, and
// its identity in the manifest, as
//   {"tokenizer":{"type":"GPT2BPETokenizer","identity":"…","vocab-file":"tokenizer/vocab.json",…}}
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ckpt/megatron_checkpoint.h"
#include "text/tokenizer.h"

namespace mt {

// Copies the files that `options` names into FOLDER/tokenizer.
std::vector<WrittenFile> write_tokenizer(const std::string& folder,
                                         const TokenizerOptions& options);
std::string tokenizer_manifest(const TokenizerOptions& options, const std::string& identity);

// The identity of the tokenizer that a checkpoint was made with; empty if it does not say.
std::string tokenizer_identity(const MegatronCheckpoint& checkpoint);

// The tokenizer of `options`, or, where they name no type, the checkpoint's own.  One whose
// identity differs from the checkpoint's is Exit::bad_config.
std::unique_ptr<Tokenizer> load_tokenizer(const MegatronCheckpoint& checkpoint,
                                          TokenizerOptions options);

}  // namespace mt
