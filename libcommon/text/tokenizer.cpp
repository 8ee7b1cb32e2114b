#include "text/tokenizer.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <initializer_list>

#include "base/command.h"
#include "base/error.h"
#include "base/utf8.h"
#include "text/bert/bert_tokenizer.h"
#include "text/bpe/gpt2_bpe.h"
#include "text/bpe/tik_tokenizer.h"
#include "text/file_names.h"
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

bool is_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

// A file that is given, or the first of these names that there is in --tokenizer-model, where this
// is a folder.
std::string given_or_in_folder(const std::string& given, const TokenizerOptions& options,
                               std::initializer_list<const char*> names) {
  std::error_code error;
  if ((!given.empty() && !is_folder(given)) || !is_folder(options.model)) return given;
  for (const char* name : names)
    if (const auto path = std::filesystem::path(options.model) / name;
        std::filesystem::exists(path, error))
      return path.string();
  return given;
}

// A field whose file, if it is not given, is looked for in the folder by `names`.
template <auto member, const auto& names>
constexpr TokenizerField folder_field(std::string_view name) {
  return {name, true,
          [](const TokenizerOptions& options) {
            return given_or_in_folder(options.*member, options, names);
          },
          [](TokenizerOptions& options, const std::string& value) { options.*member = value; }};
}

using Options = TokenizerOptions;
using Names = std::initializer_list<const char*>;
constexpr Names kWordsNames = {kVocabTxt}, kVocabularyNames = {kVocabJson},
                kMergesNames = {kMergesTxt},
                kPieceNames = {kModelFiles[0], kModelFiles[1], kModelFiles[2], kModelFiles[3]},
                kRankNames = {kTekkenJson, kTokenizerModel, kTiktokenModel};
constexpr TokenizerField kWords = folder_field<&Options::vocab_file, kWordsNames>("vocab-file");
constexpr TokenizerField kVocabFile =
    folder_field<&Options::vocab_file, kVocabularyNames>("vocab-file");
constexpr TokenizerField kMergeFile =
    folder_field<&Options::merge_file, kMergesNames>("merge-file");
constexpr TokenizerField kPieces = folder_field<&Options::model, kPieceNames>("tokenizer-model");
constexpr TokenizerField kRanks = folder_field<&Options::model, kRankNames>("tokenizer-model");
constexpr TokenizerField kModel = text_field<&Options::model>("tokenizer-model", true);
constexpr TokenizerField kVocabSize = number_field<&Options::vocab_size>("vocab-size");
// As they are given.
constexpr TokenizerField kFileFields[] = {text_field<&Options::vocab_file>("vocab-file", true),
                                          text_field<&Options::merge_file>("merge-file", true),
                                          kModel};

constexpr TokenizerField kExtraIds = number_field<&Options::extra_ids>("vocab-extra-ids");

constexpr TokenizerField kTransformers =
    number_field<&Options::transformers_version>("transformers-version");

constexpr TokenizerField kBertFields[] = {kWords, kExtraIds};
constexpr TokenizerField kGpt2Fields[] = {kVocabFile, kMergeFile};
constexpr TokenizerField kNullFields[] = {kVocabSize};
constexpr TokenizerField kModelFields[] = {kPieces};
constexpr TokenizerField kHfFields[] = {kModel, kTransformers};
constexpr TokenizerField kSentencePieceFields[] = {kPieces, kExtraIds};
constexpr TokenizerField kTikFields[] = {
    kRanks, text_field<&Options::tiktoken_pattern>("tiktoken-pattern", false),
    number_field<&Options::tiktoken_num_special_tokens>("tiktoken-num-special-tokens"),
    list_field<&Options::tiktoken_special_tokens>("tiktoken-special-tokens"), kVocabSize};

// --- The registry. ---

struct Registration {
  std::string_view type;
  std::span<const TokenizerField> fields;
  std::unique_ptr<Tokenizer> (*make)(const TokenizerOptions&);
};

std::unique_ptr<Tokenizer> make_gpt2_bpe(const TokenizerOptions& options) {
  return std::make_unique<Gpt2Bpe>(kVocabFile.get(options), kMergeFile.get(options));
}

template <const std::string_view& type>
std::unique_ptr<Tokenizer> make_bert(const TokenizerOptions& options) {
  return std::make_unique<BertTokenizer>(type, kWords.get(options),
                                         static_cast<std::int32_t>(options.extra_ids));
}

std::unique_ptr<Tokenizer> make_sentencepiece(const TokenizerOptions& options) {
  return std::make_unique<SentencePieceTokenizer>(kPieces.get(options),
                                                  static_cast<std::int32_t>(options.extra_ids));
}

template <const std::string_view& type>
std::unique_ptr<Tokenizer> make_sentencepiece_model(const TokenizerOptions& options) {
  return std::make_unique<SentencePieceModelTokenizer>(type, kPieces.get(options));
}

std::unique_ptr<Tokenizer> make_null(const TokenizerOptions& options) {
  if (options.vocab_size < 1 || options.vocab_size > (1 << 30))
    fail(Exit::usage, "--vocab-size ", options.vocab_size, ": expected 1 to ", 1 << 30,
         ", --tokenizer-type ", NullTokenizer::kType, " needs it");
  return std::make_unique<NullTokenizer>(static_cast<std::int32_t>(options.vocab_size));
}

std::unique_ptr<Tokenizer> make_tik(const TokenizerOptions& options) {
  TokenizerOptions found = options;
  found.model = kRanks.get(options);
  return std::make_unique<TikTokenizer>(found);
}

std::unique_ptr<Tokenizer> make_hf(const TokenizerOptions& options) {
  return std::make_unique<HfTokenizer>(options.model,
                                       static_cast<int>(options.transformers_version));
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
    {HfTokenizer::kType, kHfFields, make_hf},
    {NullTokenizer::kType, kNullFields, make_null},
    {TikTokenizer::kType, kTikFields, make_tik},
};

// All files are needed, and what is given must be the type's own; --vocab-size may be the model's,
// and --tokenizer-model the folder where a type's files are looked for.
void check_fields(const TokenizerOptions& options, std::string_view prefix,
                  const Registration& entry) {
  const std::string type = concat(prefix, "tokenizer-type ", entry.type);
  for (const TokenizerField& field : entry.fields)
    if (field.is_file && field.get(options).empty())
      fail(Exit::usage, prefix, field.name, ": not given, ", type, " needs it");
  const auto is_own = [&](const TokenizerField& field) {
    return std::ranges::find(entry.fields, field.name, &TokenizerField::name) != entry.fields.end();
  };
  for (const TokenizerField& field : kFileFields) {
    const bool folder = field.name == kModel.name && is_folder(options.model);
    if (!field.is_default(options) && !is_own(field) &&
        (!folder || entry.fields.empty() || !entry.fields[0].is_file))
      fail(Exit::usage, prefix, field.name, " ", field.get(options), ": ", type,
           " does not read it");
  }
  for (const Registration& other : kRegistry)
    for (const TokenizerField& field : other.fields)
      if (!field.is_file && field.name != kVocabSize.name && !field.is_default(options) &&
          !is_own(field))
        fail(Exit::usage, prefix, field.name, " ", field.get(options), ": ", type, " has none");
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

bool Tokenizer::has_role(std::int32_t id) const {
  const SpecialTokens ids = special_ids();
  return id == eod() || id == ids.cls || id == ids.sep || id == ids.mask || id == ids.pad ||
         id == ids.bos || id == ids.eos || id == ids.unk || std::ranges::count(ids.extra, id) > 0;
}

std::string Tokenizer::decode_text(std::span<const std::int32_t> ids) const {
  return replace_invalid_utf8(decode(ids));
}

void TokenizerOptions::add_to(CommandLine& cl) {
  cl.option("--tokenizer-type", &type, "TYPE", "kind of tokenizer: " + known_types());
  cl.option("--vocab-file", &vocab_file, "FILE", "vocabulary: vocab.json, or BERT's vocab.txt");
  cl.option("--merge-file", &merge_file, "FILE", "merges of a byte-pair encoding (merges.txt)");
  cl.option(
      "--tokenizer-model", &model, "PATH",
      "a SentencePiece model; HuggingFaceTokenizer: a folder, or a tokenizer.json; TikTokenizer: "
      "ranks, as tiktoken, Megatron or Mistral write them; or a folder with the type's files");
  cl.option("--transformers-version", &transformers_version, "N",
            "the version of transformers whose AutoTokenizer HuggingFaceTokenizer follows",
            between(HfTokenizer::kVersion, 5));
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

void check_no_files_without_type(const TokenizerOptions& options, std::string_view prefix) {
  if (!options.type.empty()) return;
  for (const TokenizerField& field : kFileFields)
    if (!field.get(options).empty())
      fail(Exit::usage, prefix, field.name, ": needs ", prefix, "tokenizer-type");
}

std::vector<TokenizerField> tokenizer_fields(std::string_view type) {
  for (const Registration& entry : kRegistry)
    if (entry.type == type) return {entry.fields.begin(), entry.fields.end()};
  return {};
}

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& options,
                                          std::string_view prefix) {
  for (const Registration& entry : kRegistry) {
    if (entry.type != options.type) continue;
    check_fields(options, prefix, entry);
    return entry.make(options);
  }
  if (options.type.empty())
    fail(Exit::usage, prefix, "tokenizer-type: not given, expected one of ", known_types());
  fail(Exit::usage, prefix, "tokenizer-type: unknown type ", options.type, ", expected one of ",
       known_types());
}

}  // namespace mt
