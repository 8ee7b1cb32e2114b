// The tokenizer that travels with a model, in the key-values of a GGUF file (ckpt/gguf.h).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ckpt/gguf.h"
#include "formats/model_source.h"

namespace mt {

// Adds tokenizer.ggml.…, of a tokenizer.model (BPE of SentencePiece), a tokenizer.json (BPE of
// bytes whose pattern llama.cpp has a name for, or with byte_fallback; WordPiece), or what becomes
// one;
// "no_vocab" if llama.cpp cannot be told of it.  Where those keys do not say all of it,
// tokenizer.huggingface.json does.  `tokenizer` is what the companions make, or null if they are
// not read by themselves; `config` is the model's config.json, which may name special tokens; the
// model has `vocab_size` tokens.  Returns what llama.cpp has no place for; empty: nothing.
std::string add_gguf_tokenizer(GgufKeyValues& key_values, const std::vector<Companion>& companions,
                               const Tokenizer* tokenizer, const std::string& config,
                               std::int64_t vocab_size);

// The way back: tokenizer.huggingface.json, or a tokenizer.json of a BPE of bytes whose pattern is
// known, or a tokenizer.model of SentencePiece's, with a tokenizer_config.json.  Without files
// there is no tokenizer, or one that has a problem, which the line says.
struct GgufTokenizer {
  std::vector<Companion> files = {};
  std::string problem = {};

  // What the files make.  `where` stands in errors.
  std::unique_ptr<Tokenizer> make(const std::string& where) const;
};
// `path` stands in errors.
GgufTokenizer read_gguf_tokenizer(const std::map<std::string, GgufValue>& values,
                                  const std::string& path, std::int64_t vocab_size);

// What tokenizer_config.json and GGUF call a token that has a role: bos_token, bos_token_id.
inline constexpr std::pair<const char*, const char*> kGgufRoles[] = {
    {"bos", "bos"},     {"eos", "eos"}, {"unk", "unknown"}, {"sep", "seperator"},
    {"pad", "padding"}, {"cls", "cls"}, {"mask", "mask"}};
// What a token of a WordPiece begins with that goes on with a word, in a tokenizer.json, and one
// that begins a word, in GGUF.
inline constexpr const char *kWordGoesOn = "##", *kWordBegins = "\xE2\x96\x81";
// What GGUF calls tokens that end a text, too.
inline constexpr const char* kMoreEnds[] = {"eot", "eom"};
// A whole tokenizer.json.
inline constexpr const char* kGgufHuggingFace = "tokenizer.huggingface.json";
// The keys of the chat template, and of the names of further ones, whose keys are "KEY.NAME".
inline constexpr const char* kGgufChat = "tokenizer.chat_template";
inline constexpr const char* kGgufChats = "tokenizer.chat_templates";

}  // namespace mt
