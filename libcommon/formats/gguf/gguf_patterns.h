// How llama.cpp's byte-pair encoding of a name (tokenizer.ggml.pre) cuts text into words, as the
// tokenizer.json of the models of that name says it.  Not there are names whose tokens are no bytes
// (gemma4, sarvam-moe, whitespace), and afmoe and deepseek-llm.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace mt {

class JsonObject;

struct GgufPattern {
  std::string_view name;
  // One after another: a regular expression, each of whose matches is a word; "digits", each one,
  // or "numbers" of several; "signs", each one, or "punctuation" of several; "bytes", cut as GPT-2
  // does.  Where that is not among them, bytes without a cut are the last.
  std::array<std::string_view, 6> steps = {};
  bool ignore_merges = false;  // a word that is a token is no other
  bool adds_bos = false;       // unless it is told otherwise
  bool nfc = false;            // of the model's tokenizer.json; llama.cpp leaves it out
};

// This finds the pattern of a name, of models that cut as another does too; null: it is not known.
const GgufPattern* find_gguf_pattern(std::string_view name);

// The name of what a pre_tokenizer does: the first that ignores merges no more than this model
// does, else one that ignores them where the model does not; empty: llama.cpp is not known to have
// it.
std::string_view gguf_pattern_of(const JsonObject& pre_tokenizer, bool ignore_merges);

// The pre_tokenizer of a pattern.
std::string pre_tokenizer_of(const GgufPattern& pattern);

}  // namespace mt
