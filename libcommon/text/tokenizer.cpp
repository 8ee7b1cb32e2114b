#include "text/tokenizer.h"

#include <algorithm>
#include <charconv>

#include "base/command.h"
#include "base/error.h"
#include "base/utf8.h"
#include "text/bert/bert_tokenizer.h"
#include "text/bpe/gpt2_bpe.h"
#include "text/bpe/tik_tokenizer.h"
#include "text/hf/hf_tokenizer.h"
#include "text/null_tokenizer.h"
#include "text/sentencepiece/sentencepiece_tokenizer.h"

namespace mt {

namespace {

// --- Fields. ---

template <auto member>
constexpr TokenizerField text_field(std::string_view name, bool is_file) {
  return {name, is_file, [](const TokenizerOptions& options) { return options.*member; },
          [](TokenizerOptions& options, const std::string& value) { options.*member = value; }};
}

template <auto member>
constexpr TokenizerField number_field(std::string_view name) {
  return {name, false,
          [](const TokenizerOptions& options) { return std::to_string(options.*member); },
          [](TokenizerOptions& options, const std::string& value) {
            std::from_chars(value.data(), value.data() + value.size(), options.*member);
          }};
}

// Words, which have no white space, with blanks between them.
template <auto member>
constexpr TokenizerField list_field(std::string_view name) {
  return {name, false,
          [](const TokenizerOptions& options) {
            std::string words;
            for (const std::string& word : options.*member)
              words += concat(words.empty() ? "" : " ", word);
            return words;
          },
          [](TokenizerOptions& options, const std::string& value) {
            (options.*member).clear();
            for (std::size_t at = 0; at < value.size();) {
              const std::size_t end = std::min(value.find(' ', at), value.size());
              (options.*member).push_back(value.substr(at, end - at));
              at = end + 1;
            }
          }};
}

using Options = TokenizerOptions;
constexpr TokenizerField kVocabFile = text_field<&Options::vocab_file>("vocab-file", true);
constexpr TokenizerField kMergeFile = text_field<&Options::merge_file>("merge-file", true);
constexpr TokenizerField kModel = text_field<&Options::model>("tokenizer-model", true);
constexpr TokenizerField kVocabSize = number_field<&Options::vocab_size>("vocab-size");
constexpr TokenizerField kFileFields[] = {kVocabFile, kMergeFile, kModel};

constexpr TokenizerField kExtraIds = number_field<&Options::extra_ids>("vocab-extra-ids");

constexpr TokenizerField kBertFields[] = {kVocabFile, kExtraIds};
constexpr TokenizerField kGpt2Fields[] = {kVocabFile, kMergeFile};
constexpr TokenizerField kNullFields[] = {kVocabSize};
constexpr TokenizerField kModelFields[] = {kModel};
constexpr TokenizerField kSentencePieceFields[] = {kModel, kExtraIds};
constexpr TokenizerField kTikFields[] = {
    kModel, text_field<&Options::tiktoken_pattern>("tiktoken-pattern", false),
    number_field<&Options::tiktoken_num_special_tokens>("tiktoken-num-special-tokens"),
    list_field<&Options::tiktoken_special_tokens>("tiktoken-special-tokens"), kVocabSize};

// --- The registry. ---

struct Registration {
  std::string_view type;
  std::span<const TokenizerField> fields;
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

std::unique_ptr<Tokenizer> make_tik(const TokenizerOptions& options) {
  return std::make_unique<TikTokenizer>(options);
}

std::unique_ptr<Tokenizer> make_hf(const TokenizerOptions& options) {
  return std::make_unique<HfTokenizer>(options.model);
}

constexpr auto& kBertLower = BertTokenizer::kLowerCaseType;
constexpr auto& kBertCase = BertTokenizer::kCaseType;
constexpr auto& kGptSentencePiece = SentencePieceModelTokenizer::kGptType;
constexpr auto& kLlama2 = SentencePieceModelTokenizer::kLlama2Type;

constexpr Registration kRegistry[] = {
    {kBertLower, kBertFields, make_bert<kBertLower>},
    {kBertCase, kBertFields, make_bert<kBertCase>},
    {Gpt2Bpe::kType, kGpt2Fields, make_gpt2_bpe},
    {SentencePieceTokenizer::kType, kSentencePieceFields, make_sentencepiece},
    {kGptSentencePiece, kModelFields, make_sentencepiece_model<kGptSentencePiece>},
    {kLlama2, kModelFields, make_sentencepiece_model<kLlama2>},
    {HfTokenizer::kType, kModelFields, make_hf},
    {NullTokenizer::kType, kNullFields, make_null},
    {TikTokenizer::kType, kTikFields, make_tik},
};

// All files are needed, and what is given must be the type's own; --vocab-size may be the model's.
void check_fields(const TokenizerOptions& options, const Registration& entry) {
  for (const TokenizerField& field : entry.fields)
    if (field.is_file && field.get(options).empty())
      fail(Exit::usage, "--", field.name, ": not given, --tokenizer-type ", entry.type,
           " needs it");
  for (const Registration& other : kRegistry) {
    for (const TokenizerField& field : other.fields) {
      const auto same = [&](const TokenizerField& own) { return own.name == field.name; };
      if (field.name == kVocabSize.name || field.is_default(options) ||
          std::ranges::any_of(entry.fields, same))
        continue;
      fail(Exit::usage, "--", field.name, " ", field.get(options), ": --tokenizer-type ",
           entry.type, field.is_file ? " does not read it" : " has none");
    }
  }
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
  cl.option(
      "--tokenizer-model", &model, "PATH",
      "a SentencePiece model; HuggingFaceTokenizer: a tokenizer.json or the folder that holds "
      "it; TikTokenizer: ranks, as tiktoken or Megatron write them");
  cl.option(
      "--tiktoken-pattern", &tiktoken_pattern, "NAME",
      "how TikTokenizer cuts text before it merges: Megatron's v1 or v2, cl100k, o200k, llama3",
      one_of(tiktoken_patterns()));
  cl.option("--tiktoken-num-special-tokens", &tiktoken_num_special_tokens, "N",
            "ids that TikTokenizer has before those of the ranks", at_least(3));
  cl.option("--tiktoken-special-tokens", &tiktoken_special_tokens, "TOKEN",
            "the first of them, by default <unk> <s> </s>; <SPECIAL_k> follow");
}

void TokenizerOptions::add_extra_ids_to(CommandLine& cl) {
  cl.option("--vocab-extra-ids", &extra_ids, "N",
            "SentencePieceTokenizer and BERT's: tokens <extra_id_0> to <extra_id_N-1> are added",
            between(0, 1 << 20));
}

void check_no_files_without_type(const TokenizerOptions& options) {
  if (!options.type.empty()) return;
  for (const TokenizerField& field : kFileFields)
    if (!field.get(options).empty())
      fail(Exit::usage, "--", field.name, ": needs --tokenizer-type");
}

std::vector<TokenizerField> tokenizer_fields(std::string_view type) {
  for (const Registration& entry : kRegistry)
    if (entry.type == type) return {entry.fields.begin(), entry.fields.end()};
  return {};
}

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& options) {
  for (const Registration& entry : kRegistry) {
    if (entry.type != options.type) continue;
    check_fields(options, entry);
    return entry.make(options);
  }
  if (options.type.empty())
    fail(Exit::usage, "--tokenizer-type: not given, expected one of ", known_types());
  fail(Exit::usage, "--tokenizer-type: unknown type ", options.type, ", expected one of ",
       known_types());
}

}  // namespace mt
