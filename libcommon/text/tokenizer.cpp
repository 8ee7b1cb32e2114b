#include "text/tokenizer.h"

#include "base/command.h"
#include "base/error.h"
#include "base/utf8.h"
#include "text/bert_tokenizer.h"
#include "text/gpt2_bpe.h"
#include "text/null_tokenizer.h"
#include "text/sentencepiece_tokenizer.h"

namespace mt {

namespace {

// A type of tokenizer and the options that it needs; others must not be given.
struct Registration {
  std::string_view type;
  struct Needs {
    bool vocab_file = false, merge_file = false, model = false, extra_ids = false;
  } needs;
  std::unique_ptr<Tokenizer> (*make)(const TokenizerOptions&);
};

std::unique_ptr<Tokenizer> make_gpt2_bpe(const TokenizerOptions& options) {
  return std::make_unique<Gpt2Bpe>(options.vocab_file, options.merge_file);
}

template <const std::string_view& type>
std::unique_ptr<Tokenizer> make_bert(const TokenizerOptions& options) {
  return std::make_unique<BertTokenizer>(type, options.vocab_file,
                                         static_cast<std::int32_t>(options.extra_ids));
}

std::unique_ptr<Tokenizer> make_sentencepiece(const TokenizerOptions& options) {
  return std::make_unique<SentencePieceTokenizer>(options.model,
                                                  static_cast<std::int32_t>(options.extra_ids));
}

template <const std::string_view& type>
std::unique_ptr<Tokenizer> make_sentencepiece_model(const TokenizerOptions& options) {
  return std::make_unique<SentencePieceModelTokenizer>(type, options.model);
}

std::unique_ptr<Tokenizer> make_null(const TokenizerOptions& options) {
  if (options.vocab_size < 1 || options.vocab_size > (1 << 30))
    fail(Exit::usage, "--vocab-size ", options.vocab_size, ": expected 1 to ", 1 << 30,
         ", --tokenizer-type ", NullTokenizer::kType, " needs it");
  return std::make_unique<NullTokenizer>(static_cast<std::int32_t>(options.vocab_size));
}

constexpr auto& kBertLower = BertTokenizer::kLowerCaseType;
constexpr auto& kBertCase = BertTokenizer::kCaseType;
constexpr auto& kGptSentencePiece = SentencePieceModelTokenizer::kGptType;
constexpr auto& kLlama2 = SentencePieceModelTokenizer::kLlama2Type;

constexpr Registration kRegistry[] = {
    {kBertLower, {.vocab_file = true, .extra_ids = true}, make_bert<kBertLower>},
    {kBertCase, {.vocab_file = true, .extra_ids = true}, make_bert<kBertCase>},
    {Gpt2Bpe::kType, {.vocab_file = true, .merge_file = true}, make_gpt2_bpe},
    {SentencePieceTokenizer::kType, {.model = true, .extra_ids = true}, make_sentencepiece},
    {kGptSentencePiece, {.model = true}, make_sentencepiece_model<kGptSentencePiece>},
    {kLlama2, {.model = true}, make_sentencepiece_model<kLlama2>},
    {NullTokenizer::kType, {}, make_null},
};

void check_file(const char* option, const std::string& value, bool needed, std::string_view type) {
  if (value.empty() && needed)
    fail(Exit::usage, option, ": not given, --tokenizer-type ", type, " needs it");
  if (!value.empty() && !needed)
    fail(Exit::usage, option, " ", value, ": --tokenizer-type ", type, " does not read it");
}

void check_needs(const Registration& entry, const TokenizerOptions& options) {
  check_file("--vocab-file", options.vocab_file, entry.needs.vocab_file, entry.type);
  check_file("--merge-file", options.merge_file, entry.needs.merge_file, entry.type);
  check_file("--tokenizer-model", options.model, entry.needs.model, entry.type);
  if (options.extra_ids != 0 && !entry.needs.extra_ids)
    fail(Exit::usage, "--vocab-extra-ids ", options.extra_ids, ": --tokenizer-type ", entry.type,
         " has none");
}

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
  cl.option("--vocab-file", &vocab_file, "FILE", "vocabulary: vocab.json, or BERT's vocab.txt");
  cl.option("--merge-file", &merge_file, "FILE", "merges of a byte-pair encoding (merges.txt)");
  cl.option("--tokenizer-model", &model, "FILE", "a SentencePiece model");
}

void TokenizerOptions::add_extra_ids_to(CommandLine& cl) {
  cl.option("--vocab-extra-ids", &extra_ids, "N",
            "SentencePieceTokenizer and BERT's: tokens <extra_id_0> to <extra_id_N-1> are added",
            between(0, 1 << 20));
}

void check_no_files_without_type(const TokenizerOptions& options) {
  if (!options.type.empty()) return;
  if (!options.vocab_file.empty()) fail(Exit::usage, "--vocab-file: needs --tokenizer-type");
  if (!options.merge_file.empty()) fail(Exit::usage, "--merge-file: needs --tokenizer-type");
  if (!options.model.empty()) fail(Exit::usage, "--tokenizer-model: needs --tokenizer-type");
}

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& options) {
  for (const Registration& entry : kRegistry)
    if (entry.type == options.type) {
      check_needs(entry, options);
      return entry.make(options);
    }
  if (options.type.empty())
    fail(Exit::usage, "--tokenizer-type: not given, expected one of ", known_types());
  fail(Exit::usage, "--tokenizer-type: unknown type ", options.type, ", expected one of ",
       known_types());
}

}  // namespace mt
