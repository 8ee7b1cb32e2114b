#include "text/tokenizer.h"

#include "base/command.h"
#include "base/error.h"
#include "base/utf8.h"
#include "text/gpt2_bpe.h"
#include "text/null_tokenizer.h"

namespace mt {

namespace {

struct Registration {
  std::string_view type;
  std::unique_ptr<Tokenizer> (*make)(const TokenizerOptions&);
};

// The value of a file option, which this type of tokenizer cannot do without.
const std::string& needed(const char* option, const std::string& value, std::string_view type) {
  if (value.empty()) fail(Exit::usage, option, ": not given, --tokenizer-type ", type, " needs it");
  return value;
}

std::unique_ptr<Tokenizer> make_gpt2_bpe(const TokenizerOptions& options) {
  return std::make_unique<Gpt2Bpe>(needed("--vocab-file", options.vocab_file, Gpt2Bpe::kType),
                                   needed("--merge-file", options.merge_file, Gpt2Bpe::kType));
}

std::unique_ptr<Tokenizer> make_null(const TokenizerOptions& options) {
  if (options.vocab_size < 1 || options.vocab_size > (1 << 30))
    fail(Exit::usage, "--vocab-size ", options.vocab_size, ": expected 1 to ", 1 << 30,
         ", --tokenizer-type ", NullTokenizer::kType, " needs it");
  return std::make_unique<NullTokenizer>(static_cast<std::int32_t>(options.vocab_size));
}

constexpr Registration kRegistry[] = {
    {Gpt2Bpe::kType, make_gpt2_bpe},
    {NullTokenizer::kType, make_null},
};

std::string known_types() {
  std::string names;
  for (const Registration& entry : kRegistry) {
    if (!names.empty()) names += ", ";
    names += entry.type;
  }
  return names;
}

}  // namespace

std::string Tokenizer::decode_text(std::span<const std::int32_t> ids) const {
  return replace_invalid_utf8(decode(ids));
}

void TokenizerOptions::add_to(CommandLine& cl) {
  cl.option("--tokenizer-type", &type, "TYPE", "kind of tokenizer: " + known_types());
  cl.option("--vocab-file", &vocab_file, "FILE", "vocabulary (GPT2BPETokenizer: vocab.json)");
  cl.option("--merge-file", &merge_file, "FILE", "merges of a byte-pair encoding (merges.txt)");
}

void check_no_files_without_type(const TokenizerOptions& options) {
  if (!options.type.empty()) return;
  if (!options.vocab_file.empty()) fail(Exit::usage, "--vocab-file: needs --tokenizer-type");
  if (!options.merge_file.empty()) fail(Exit::usage, "--merge-file: needs --tokenizer-type");
}

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& options) {
  for (const Registration& entry : kRegistry)
    if (entry.type == options.type) return entry.make(options);
  if (options.type.empty())
    fail(Exit::usage, "--tokenizer-type: not given, expected one of ", known_types());
  fail(Exit::usage, "--tokenizer-type: unknown type ", options.type, ", expected one of ",
       known_types());
}

}  // namespace mt
