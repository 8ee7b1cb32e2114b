#include "formats/hugging_face/tokenizer_files.h"

#include <limits>
#include <optional>
#include <set>

#include "base/json.h"
#include "text/bert/bert_tokenizer.h"
#include "text/bert/word_piece.h"
#include "text/bpe/gpt2_bpe.h"
#include "text/file_names.h"
#include "text/hf/hf_from_files.h"
#include "text/hf/hf_tokenizer.h"
#include "text/put_in_front.h"
#include "text/same_ids.h"
#include "text/sentencepiece/sentencepiece_model.h"

namespace mt {
namespace {

// --- What is said of a tokenizer ----------------------------------------------------------------

constexpr std::string_view kAnyClass = "PreTrainedTokenizerFast";

bool is_bert(const Tokenizer& tokenizer) { return tokenizer.type().starts_with("Bert"); }

// Does one of transformers' do what the tokenizer does?
bool does_as(const HfTokenizer& made, const Tokenizer& tokenizer) {
  if (tokenizer.type() == HfTokenizer::kType) return same_ids(made, tokenizer);
  const auto is_added = [&](std::int32_t id) { return made.is_added(id) || id == made.unknown(); };
  return same_words(made, tokenizer, is_added) &&
         (is_bert(tokenizer) || put_in_front(made) == put_in_front(tokenizer));
}

// Does a tokenizer.json do so in a version of transformers, beside such files?
bool is_read(const std::string& json, const std::vector<HfConfigFile>& beside, int version,
             const Tokenizer& tokenizer) {
  try {
    return does_as(HfTokenizer(json, kTokenizerJson, beside, version), tokenizer);
  } catch (const Error&) {
    return false;
  }
}

class Settings {
 public:
  Settings(const Tokenizer& tokenizer, const std::vector<HfConfigFile>& vocabulary)
      : tokenizer_(tokenizer),
        made_(dynamic_cast<const HfTokenizer*>(&tokenizer)),
        class_(made_ != nullptr ? made_->class_name() : hf_class_of_files(vocabulary)) {
    if (class_ == hf_class("").name) class_ = kAnyClass;
    if (made_ == nullptr && vocabulary[0].path.ends_with(".model"))
      model_ = parse_sentencepiece_model(vocabulary[0].content, vocabulary[0].path);
  }

  std::string special_tokens_map() const {
    JsonWriter json;
    json.begin_object();
    add_roles(json);
    return json.end_object().text() + "\n";
  }

  // The class of transformers that reads the vocabulary's own files.
  std::string_view class_name() const { return class_; }
  // Whether both versions have the same of a tokenizer.json beside `config`.  The class of
  // SentencePiece's says what that has already, and in version 5 otherwise than in version 4.
  bool is_read_by_class(const std::string& json, const std::string& config) const {
    if (made_ != nullptr) return true;
    const std::vector<HfConfigFile> beside = {{kTokenizerConfig, config}};
    return !model_ && is_read(json, beside, 4, tokenizer_) && is_read(json, beside, 5, tokenizer_);
  }

  std::string tokenizer_config(std::int64_t positions, std::string_view class_name) const {
    JsonWriter json;
    json.begin_object().member("tokenizer_class", class_name);
    add_roles(json);
    if (made_ == nullptr) add_decoder(json);
    if (model_) {
      json.member("add_bos_token", !put_in_front(tokenizer_).empty());
      json.member("add_eos_token", false).member("legacy", true);
      if (!model_->normalizer.add_dummy_prefix) json.member("add_prefix_space", false);
    }
    if (is_bert(tokenizer_))
      json.member("do_lower_case", tokenizer_.type() == BertTokenizer::kLowerCaseType);
    if (positions < std::numeric_limits<std::int32_t>::max())
      json.member("model_max_length", positions);
    return json.member("clean_up_tokenization_spaces", false).end_object().text() + "\n";
  }

 private:
  // A control token of SentencePiece's is decoded to nothing.
  std::string text_of(std::int32_t id) const {
    if (model_ && id < std::ssize(model_->pieces))
      return model_->pieces[static_cast<std::size_t>(id)].text;
    return tokenizer_.decode({&id, 1});
  }

  // -1: as the class has it.
  std::int32_t unknown() const {
    if (made_ != nullptr) return made_->unknown();
    if (model_) return model_->unk;
    return tokenizer_.type() == Gpt2Bpe::kType ? tokenizer_.eod() : -1;
  }

  void add_roles(JsonWriter& json) const {
    const SpecialTokens ids = special_tokens(tokenizer_);
    for (const auto& [name, id] : {std::pair("bos_token", ids.bos),
                                   {"eos_token", ids.eos},
                                   {"unk_token", unknown()},
                                   {"sep_token", ids.sep},
                                   {"pad_token", ids.pad},
                                   {"cls_token", ids.cls},
                                   {"mask_token", ids.mask}})
      if (id >= 0) json.member(name, text_of(id));
  }

  // Special tokens by their ids, which may be ones that no file has.
  void add_decoder(JsonWriter& json) const {
    const SpecialTokens ids = special_tokens(tokenizer_);
    std::set<std::int32_t> all(ids.extra.begin(), ids.extra.end());
    all.insert({ids.bos, ids.eos, ids.sep, ids.pad, ids.cls, ids.mask});
    all.erase(-1);
    json.key("added_tokens_decoder").begin_object();
    for (const std::int32_t id : all) {
      json.key(std::to_string(id)).begin_object().member("content", text_of(id));
      for (const char* flag : {"lstrip", "normalized", "rstrip", "single_word"})
        json.member(flag, false);
      json.member("special", true).end_object();
    }
    json.end_object();
  }

  const Tokenizer& tokenizer_;
  const HfTokenizer* made_;                  // null for a type of Megatron's
  std::string_view class_;                   // of transformers
  std::optional<SentencePieceModel> model_;  // that a type of Megatron's reads
};

// --- Files --------------------------------------------------------------------------------------

std::vector<HfConfigFile> read(const std::vector<Companion>& companions,
                               const std::vector<std::string>& names) {
  std::vector<HfConfigFile> files;
  for (const std::string& name : names)
    files.push_back({name, find_companion(companions, name)->read()});
  return files;
}

// BERT's class has no words of more than 100 characters, and Megatron's have 200.  A quote that is
// part of a token is escaped, so that this is found as a member alone.
std::string with_long_words(std::string json) {
  constexpr std::string_view kMost = R"("max_input_chars_per_word":)", kOfClass = "100";
  const std::size_t at = json.find(concat(kMost, kOfClass, ","));
  if (at != json.npos)
    json.replace(at + kMost.size(), kOfClass.size(),
                 std::to_string(WordPiece::Options().longest_word));
  return json;
}

// The tokenizer.json that they make in either version of transformers, if it does what the
// tokenizer does; else nothing.
std::string json_of(const std::vector<HfConfigFile>& files, const Tokenizer& tokenizer) {
  for (const int version : {4, 5}) try {
      std::string whole;
      const HfTokenizer made(files, version, &whole);
      if (!is_bert(tokenizer)) {
        if (does_as(made, tokenizer)) return whole;
      } else {
        whole = with_long_words(std::move(whole));
        if (does_as(HfTokenizer(whole, kTokenizerJson, {}, version), tokenizer)) return whole;
      }
    } catch (const Error&) {  // of files that it does not take
    }
  return {};
}

HfIsThere is_among(const std::vector<Companion>& companions) {
  return [&](const std::string& name) { return find_companion(companions, name) != nullptr; };
}

// The files that say more of a vocabulary; `config` is its tokenizer_config.json if there is none.
std::vector<HfConfigFile> config_files(const std::string& config,
                                       const std::vector<Companion>& companions) {
  const HfIsThere is_there = is_among(companions);
  std::vector<HfConfigFile> files = read(companions, hf_config_files(is_there));
  if (!is_there(kTokenizerConfig)) files.insert(files.begin(), {kTokenizerConfig, config});
  return files;
}

// Makes the tokenizer.json of a vocabulary and of what its folder says.  A folder that does not
// name all that a type of Megatron's adds, such as [EOS], gets one that does, if a version of
// transformers reads it so.
std::string json_of(const std::vector<HfConfigFile>& vocabulary, const std::string& config,
                    const std::vector<Companion>& companions, const Tokenizer& tokenizer) {
  const std::vector<HfConfigFile> beside = config_files(config, companions);
  const auto with = [&](std::vector<HfConfigFile> more) {
    more.insert(more.begin(), vocabulary.begin(), vocabulary.end());
    return json_of(more, tokenizer);
  };
  std::string json = with(beside);
  if (!json.empty() || tokenizer.type() == HfTokenizer::kType) return json;
  json = with({{kTokenizerConfig, config}});
  return is_read(json, beside, 4, tokenizer) || is_read(json, beside, 5, tokenizer) ? json : "";
}

}  // namespace

SpecialTokens special_tokens(const Tokenizer& tokenizer) {
  SpecialTokens ids = tokenizer.special_ids();
  if (ids.eos < 0) ids.eos = tokenizer.eod();
  if (tokenizer.type() == Gpt2Bpe::kType) ids.bos = ids.eos;
  return ids;
}

std::vector<Companion> missing_tokenizer_files(const std::vector<Companion>& companions,
                                               const Tokenizer& tokenizer, std::int64_t positions) {
  const HfIsThere is_there = is_among(companions);
  const std::vector<std::string> names = hf_vocabulary_files(is_there);
  if (names.empty() || names[0] == kTokenizerJson) return {};
  std::vector<Companion> made;
  const auto add = [&](const char* name, const std::string& content) {
    if (!is_there(name)) made.push_back({.name = name, .content = content});
  };
  const std::vector<HfConfigFile> vocabulary = read(companions, names);
  const Settings settings(tokenizer, vocabulary);
  const auto config_of = [&](std::string_view name) {
    return settings.tokenizer_config(positions, name);
  };
  const std::string config = config_of(settings.class_name());
  const std::string json = json_of(vocabulary, config, companions, tokenizer);
  if (!json.empty()) add(kTokenizerJson, json);
  const bool by_class = json.empty() || settings.is_read_by_class(json, config);
  add(kTokenizerConfig, by_class ? config : config_of(kAnyClass));
  add(kSpecialTokensMap, settings.special_tokens_map());
  return made;
}

std::string whole_tokenizer_json(const std::vector<Companion>& companions,
                                 const Tokenizer& tokenizer) {
  const std::vector<std::string> names = hf_vocabulary_files(is_among(companions));
  if (names.empty()) return {};
  const std::vector<HfConfigFile> vocabulary = read(companions, names);
  std::string config = "{}";
  if (names[0] != kTokenizerJson) {
    const Settings settings(tokenizer, vocabulary);
    config = settings.tokenizer_config(std::numeric_limits<int>::max(), settings.class_name());
  }
  return json_of(vocabulary, config, companions, tokenizer);
}

}  // namespace mt
