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

// How llama.cpp's BPE of a name (tokenizer.ggml.pre) cuts text into words, and what it does beside.
struct GgufPattern {
  std::string_view name, regex;  // no regex: GPT-2's
  bool digits = false;           // each is a word of its own, before that
  bool ignore_merges = false;    // a word that is a token is no other
  bool adds_bos = false;         // unless it is told otherwise
  bool nfc = false;              // of the model's tokenizer.json; llama.cpp leaves it out
};
// This finds the pattern of a name, of models that cut as another does too; null: it is not known.
const GgufPattern* find_gguf_pattern(std::string_view name);

}  // namespace mt
