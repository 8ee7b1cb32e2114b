// The tokenizer that travels with a model, in the key-values of a GGUF file (ckpt/gguf.h).
#pragma once

#include "ckpt/gguf.h"
#include "model/model_source.h"

namespace mt {

// Adds tokenizer.ggml.…, of a tokenizer.model (BPE of SentencePiece), a tokenizer.json (BPE of
// bytes whose pattern llama.cpp has a name for, or with byte_fallback), or vocab.json with
// merges.txt (GPT-2's); "no_vocab" if there is none.  `config` is the model's config.json, which
// may name special tokens; the model has `vocab_size` tokens.  Exit::bad_config for a tokenizer
// that llama.cpp cannot be told about.
void add_gguf_tokenizer(GgufKeyValues& key_values, const std::vector<Companion>& companions,
                        const std::string& config, std::int64_t vocab_size);

}  // namespace mt
