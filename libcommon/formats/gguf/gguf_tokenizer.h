// The tokenizer that travels with a model, in the key-values of a GGUF file (ckpt/gguf.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ckpt/gguf.h"
#include "formats/model_source.h"

namespace mt {

// Adds tokenizer.ggml.…, of a tokenizer.model (BPE of SentencePiece), a tokenizer.json (BPE of
// bytes whose pattern llama.cpp has a name for, or with byte_fallback), or vocab.json with
// merges.txt (GPT-2's); "no_vocab" if there is none.  `config` is the model's config.json, which
// may name special tokens; the model has `vocab_size` tokens.  Exit::bad_config for a tokenizer
// that llama.cpp cannot be told about.
void add_gguf_tokenizer(GgufKeyValues& key_values, const std::vector<Companion>& companions,
                        const std::string& config, std::int64_t vocab_size);

// The way back: a tokenizer.json of a BPE of bytes whose pattern is known, or a tokenizer.model of
// SentencePiece's, with a tokenizer_config.json.  Without files there is no tokenizer, or one that
// has a problem, which the line says.
struct GgufTokenizer {
  std::vector<Companion> files = {};
  std::string problem = {};
};
GgufTokenizer read_gguf_tokenizer(const GgufReader& file, std::int64_t vocab_size);

// The keys of the chat template, and of the names of further ones, whose keys are "KEY.NAME".
inline constexpr const char* kGgufChat = "tokenizer.chat_template";
inline constexpr const char* kGgufChats = "tokenizer.chat_templates";

}  // namespace mt
