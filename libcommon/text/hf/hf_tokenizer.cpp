#include "text/hf/hf_tokenizer.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_object.h"
#include "base/utf8.h"
#include "text/bpe/byte_map.h"
#include "text/file_names.h"
#include "text/hf/hf_adapt.h"
#include "text/hf/hf_clean_up.h"
#include "text/hf/hf_from_files.h"
#include "text/hf/hf_whole_json.h"

namespace mt {

// --- Loading. ---

// The tokenizer.json that a path means, or the files that one would be made of.
static std::vector<std::string> vocabulary_files(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return hf_vocabulary_of(path);
  std::vector<std::string> names = hf_vocabulary_files(path);
  if (names.empty())
    fail(Exit::no_input, path, ": no tokenizer there: neither tokenizer.json, vocab.json with ",
         "merges.txt, vocab.txt, tokenizer.model nor tekken.json");
  for (std::string& name : names) name = concat(path, "/", name);
  return names;
}

std::vector<HfConfigFile> HfTokenizer::files(const std::string& path) {
  std::vector<HfConfigFile> files;
  for (const std::string& file : vocabulary_files(path))
    files.push_back({file, read_regular_file(file)});
  const std::string folder = parent_directory(files[0].path);
  std::error_code error;
  const HfIsThere is_there = [&](const std::string& name) {
    return std::filesystem::exists(concat(folder, "/", name), error);
  };
  for (const std::string& name : hf_config_files(is_there)) {
    const std::string file = concat(folder, "/", name);
    files.push_back({file, read_regular_file(file)});
  }
  return files;
}

static bool is_vocabulary(const HfConfigFile& file) { return is_hf_vocabulary_file(file.path); }

std::vector<HfConfigFile> HfTokenizer::copies(const std::string& path, int version) {
  std::vector<HfConfigFile> copies = files(path);
  for (HfConfigFile& file : copies) file.path = file.path.substr(file.path.rfind('/') + 1);
  if (!is_vocabulary(copies[0])) copies[0].path = kTokenizerJson;
  if (copies.back().path != kHfModelConfig) return copies;
  const HfConfigFile model = copies.back();
  copies.pop_back();
  const auto config = std::ranges::find_if_not(copies.begin() + 1, copies.end(), is_vocabulary);
  std::vector<HfConfigFile> all(config, copies.end());
  const HfConfig alone = read_hf_config(all, version);
  all.push_back(model);
  const HfConfig beside = read_hf_config(all, version);
  if (beside.has_class && (!alone.has_class || alone.tokenizer_class != beside.tokenizer_class))
    copies.push_back({kHfClassFile, concat("{\"tokenizer_class\":",
                                           json_quoted(beside.tokenizer_class->name), "}\n")});
  return copies;
}

HfTokenizer::HfTokenizer(const std::string& path, int version)
    : HfTokenizer(files(path), version) {}

HfTokenizer::HfTokenizer(const std::vector<HfConfigFile>& all, int version, std::string* whole) {
  const auto first = std::ranges::find_if_not(all.begin() + 1, all.end(), is_vocabulary);
  HfConfig config = read_hf_config({first, all.end()}, version);
  config.from_file = !is_vocabulary(all[0]);
  std::string json = all[0].content;
  if (!config.from_file) {
    const std::vector<HfConfigFile> vocabulary(all.begin(), first);
    if (!config.has_class) config.tokenizer_class = &hf_class(hf_class_of_files(vocabulary));
    check_hf_class(config, version, all[0].path);
    fill_hf_roles(config, version);
    json = hf_json_from(vocabulary, config, version);
  }
  make(json, all[0].path, config, version, whole);
}

HfTokenizer::HfTokenizer(std::string_view content, const std::string& file,
                         const std::vector<HfConfigFile>& config_files, int version) {
  make(content, file, read_hf_config(config_files, version), version, nullptr);
}

static std::string note_of_class(const HfConfig& config, int version, const std::string& file) {
  const std::string& name = config.unknown_class;
  if (name.empty()) return {};
  const int other = version < 5 ? 5 : 4;
  return concat(file, ": transformers ", version, " has no class ", json_quoted(name),
                ": the tokenizer is read as its files stand, without the code of that class",
                hf_class_is_known(name, other) ? concat("; version ", other, " has it") : "");
}

void HfTokenizer::make(std::string_view content, const std::string& file, HfConfig config,
                       int version, std::string* whole) {
  HfDocument document(content, file);
  if (config.from_file) config.tokenizer_class = &hf_class_of_document(document, config, version);
  check_hf_class(config, version, file);
  class_ = config.tokenizer_class->name;
  note_ = note_of_class(config, version, file);
  mend_hf_roles(config, document);
  constexpr std::size_t kPad = 4;
  static_assert(kHfRoles[kPad] == "pad_token");
  fill_hf_roles(config, version);
  if (!config.roles[kPad] && config.is_said() && document.has("padding"))
    config.roles[kPad] =
        HfRoleToken{{.content = std::string(document.object("padding").text_or("pad_token", "")),
                     .special = true},
                    false};
  if (const JsonObject& root = document.file();
      root.has("version") && root.text("version") != "1.0")
    root.refuse("\"version\": ", json_quoted(root.text("version")), ", expected \"1.0\"");
  // In version 4 BERT's classes change the normalizer when all tokens are there.
  HfNormalizer of_tokens;
  const bool is_late =
      version < 5 && config.from_file && config.tokenizer_class->has(HfClass::bert);
  if (is_late && document.has("normalizer"))
    of_tokens = HfNormalizer(document.object("normalizer"));
  adapt_hf_document(document, config, version);
  HfVocabulary vocabulary = read_hf_vocabulary(document.object("model"));
  read(document, vocabulary, config.from_file && !is_hf_made_anew(config, version));
  const std::vector<HfAddedToken> added =
      add_tokens(document, config, version, is_late ? of_tokens : normalizer_, vocabulary);
  for (const auto& [role, id] : {std::pair{"bos_token", &special_.bos},
                                 {"eos_token", &special_.eos},
                                 {"unk_token", &unknown_},
                                 {"sep_token", &special_.sep},
                                 {"pad_token", &special_.pad},
                                 {"cls_token", &special_.cls},
                                 {"mask_token", &special_.mask}})
    if (const auto token = vocabulary.ids.find(hf_role(config, role));
        token != vocabulary.ids.end())
      *id = token->second;
  if (document.has("post_processor"))
    template_ = read_hf_template(document.object("post_processor"),
                                 static_cast<std::int32_t>(vocabulary.tokens.size()));
  put_ends(hf_ends(config, version, document.has("post_processor")), config, file, vocabulary);
  if (whole != nullptr) *whole = hf_whole_json(document, added, template_, vocabulary.tokens);
  // Version 4 cleans up what BERT's vocab.txt gives if nobody forbids it; version 5 leaves what a
  // byte-pair encoding gives alone.
  const bool cleans =
      version < 5 && !config.from_file && config.tokenizer_class->has(HfClass::bert);
  clean_up_ = config.clean_up.or_else(cleans) &&
              (version < 5 || hf_model_type(document.object("model")) != "BPE");
  if (decoder_.only_bytes())
    for (std::string& token : vocabulary.tokens) token = from_byte_chars(token).value_or(token);
  tokens_ = TokenBytes(std::move(vocabulary.tokens));
  identity_ = identity_of(content, document);
}

void HfTokenizer::read(const HfDocument& document, const HfVocabulary& vocabulary,
                       bool serde_numbers) {
  if (document.has("normalizer")) normalizer_ = HfNormalizer(document.object("normalizer"));
  if (document.has("pre_tokenizer"))
    pre_tokenizer_ = HfPreTokenizer(document.object("pre_tokenizer"));
  if (pre_tokenizer_.asks_for_start() && !normalizer_.keeps_start())
    document.file().refuse(
        "\"prepend_scheme\" is \"first\" behind a normalizer that may take the start away");
  const JsonObject model = document.object("model");
  const bool bytes = pre_tokenizer_.ends_with_bytes() && hf_model_takes_bytes(model, vocabulary);
  if (bytes) pre_tokenizer_.leave_bytes();
  splitter_ = pre_tokenizer_.splitter();
  model_ = make_hf_model(model, vocabulary, {.bytes = bytes, .serde_numbers = serde_numbers});
  if (document.has("decoder")) decoder_ = HfDecoder(document.object("decoder"));
}

std::vector<HfAddedToken> HfTokenizer::add_tokens(const HfDocument& document,
                                                  const HfConfig& config, int version,
                                                  const HfNormalizer& normalizer,
                                                  HfVocabulary& vocabulary) {
  HfAddedVocabulary added(vocabulary, version);
  add_hf_tokens(added, document, config, version);
  const bool no_special = config.split_special.or_else(false);
  std::vector<HfAddedToken> raw, normalized, all = added.searched();
  for (const HfAddedToken& token : all) {
    added_.insert(token.id);
    if (token.special) marks_.insert(token.id);
    const bool was_normalized = version >= 5 && added.was_normalized(token.id);
    HfAddedToken normal = token;
    if (token.normalized || was_normalized) normalizer.apply(normal.content);
    if (was_normalized)  // the tokenizers of version 5 write what they look for
      vocabulary.tokens[static_cast<std::size_t>(token.id)] = normal.content;
    if (!token.normalized) {
      raw.push_back(token);
      continue;
    }
    if (normal.content.empty())
      document.file().refuse(
          "the added token ", json_quoted(token.content),
          " is nothing when it is normalized, which transformers finds between all characters, or "
          "fails at; \"normalized\": false finds it as it stands");
    normalized.push_back(std::move(normal));
  }
  raw_tokens_ = HfAddedTokens(std::move(raw), no_special);
  normalized_tokens_ = HfAddedTokens(std::move(normalized), no_special);
  std::ranges::stable_sort(all, {}, &HfAddedToken::id);
  folder_tokens_ = hf_tokens_beyond(document, all, no_special);
  const auto same_id = [](const auto& a, const auto& b) { return a.id == b.id; };
  all.erase(std::unique(all.begin(), all.end(), same_id), all.end());
  return all;
}

void HfTokenizer::put_ends(const HfEnds& ends, const HfConfig& config, const std::string& file,
                           const HfVocabulary& vocabulary) {
  const auto id_of = [&](std::string_view role) {
    const bool is_language = role == HfEnds::kLanguage;
    const auto token = vocabulary.ids.find(is_language ? ends.language : hf_role(config, role));
    if (token != vocabulary.ids.end()) return token->second;
    if (!is_language || unknown_ < 0)
      fail(Exit::bad_data, file, ": ", json_quoted(is_language ? ends.language : role),
           " is put around each text, but not given");
    return unknown_;
  };
  if (!ends.count) return;
  template_ = {};
  for (const std::string_view role : ends.before) template_.before.push_back(id_of(role));
  for (const std::string_view role : ends.after) template_.after.push_back(id_of(role));
}

// Files that change nothing of what the tokenizer.json says do not count.
std::string HfTokenizer::identity_of(std::string_view content, const HfDocument& document) const {
  Hasher hasher;
  hasher.update(kType);
  hasher.update(hash_hex(as_bytes(content)));
  hasher.update(concat(" ", special_.bos, " ", special_.eos));
  for (const auto* ids : {&template_.before, &template_.after}) {
    hasher.update(";");
    for (const std::int32_t id : *ids) hasher.update(concat(" ", id));
  }
  hasher.update(document.changes());
  hasher.update(folder_tokens_);
  return hasher.hex();
}

// --- Encoding. ---

void HfTokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (simdjson::validate_utf8(text.data(), text.size()))
    encode_utf8(text, ids);
  else
    encode_utf8(replace_invalid_utf8(text), ids);
}

void HfTokenizer::encode_utf8(std::string_view text, std::vector<std::int32_t>& ids) const {
  ids.insert(ids.end(), template_.before.begin(), template_.before.end());
  encode_raw(text, ids);
  ids.insert(ids.end(), template_.after.begin(), template_.after.end());
}

void HfTokenizer::encode_raw(std::string_view text, std::vector<std::int32_t>& ids) const {
  std::vector<HfAddedTokens::Part> parts;
  raw_tokens_.find(text, parts);
  for (const auto& [begin, end, id] : parts) {
    if (id >= 0)
      ids.push_back(id);
    else
      encode_between(text.substr(begin, end - begin), begin == 0, ids);
  }
}

void HfTokenizer::encode_between(std::string_view text, bool at_start,
                                 std::vector<std::int32_t>& ids) const {
  std::string normal;
  if (!normalizer_.empty()) {
    normal = text;
    normalizer_.apply(normal);
    text = normal;
  }
  std::vector<HfAddedTokens::Part> parts;
  normalized_tokens_.find(text, parts);
  for (const auto& [begin, end, id] : parts) {
    if (id >= 0) {
      ids.push_back(id);
    } else if (splitter_) {
      model_->encode(text.substr(begin, end - begin), *splitter_, ids);
    } else {
      HfWords words{.text = std::string(text.substr(begin, end - begin)),
                    .ends = {end - begin},
                    .at_start = at_start && begin == 0};
      pre_tokenizer_.apply(words);
      model_->encode(words, ids);
    }
  }
}

std::string hf_note_of(const Tokenizer& tokenizer) {
  const auto* const made = dynamic_cast<const HfTokenizer*>(&tokenizer);
  return made == nullptr ? "" : made->note();
}

// --- Decoding. ---

namespace {

class StagedDecoder : public StreamDecoder {
 public:
  StagedDecoder(const HfDecoder& decoder, const TokenBytes& tokens)
      : decoder_(decoder), tokens_(tokens), stages_(decoder.start()) {}

  void push(std::int32_t id, std::string& text) override {
    if (const std::string& token = tokens_.of(id); !token.empty()) run({token}, 0, text);
  }
  void finish(std::string& text) override {
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      HfDecoderStage::Tokens rest;
      stages_[i]->finish(rest);
      run(std::move(rest), i + 1, text);
    }
    stages_ = decoder_.start();
  }

 private:
  // Through the stages from `first` on.
  void run(HfDecoderStage::Tokens tokens, std::size_t first, std::string& text) {
    for (std::size_t i = first; i < stages_.size(); ++i) {
      HfDecoderStage::Tokens out;
      for (const std::string& token : tokens) stages_[i]->push(token, out);
      tokens.swap(out);
    }
    for (const std::string& token : tokens) text += token;
  }

  const HfDecoder& decoder_;
  const TokenBytes& tokens_;
  std::vector<std::unique_ptr<HfDecoderStage>> stages_;
};

}  // namespace

std::unique_ptr<StreamDecoder> HfTokenizer::stream_decoder() const {
  std::unique_ptr<StreamDecoder> decoder;
  if (decoder_.only_bytes())
    decoder = tokens_.stream_decoder();
  else
    decoder = std::make_unique<StagedDecoder>(decoder_, tokens_);
  return clean_up_ ? hf_clean_up(std::move(decoder)) : std::move(decoder);
}

std::string HfTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  if (decoder_.only_bytes()) {
    text = tokens_.decode(ids);
  } else {
    StagedDecoder decoder(decoder_, tokens_);
    for (const std::int32_t id : ids) decoder.push(id, text);
    decoder.finish(text);
  }
  if (clean_up_) hf_clean_up(text);
  return text;
}

}  // namespace mt
