#include "text/hf/hf_tokenizer.h"

#include <algorithm>
#include <filesystem>

#include "base/allowance.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_object.h"
#include "base/json_parse.h"
#include "base/json_place.h"
#include "base/utf8.h"
#include "text/bpe/byte_map.h"

namespace mt {

// --- Loading. ---

static std::string json_path(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error) ? path + "/tokenizer.json" : path;
}

std::vector<std::string> HfTokenizer::files(const std::string& path) {
  std::vector<std::string> files = {json_path(path)};
  for (const std::string& file : hf_config_files(parent_directory(files[0]))) files.push_back(file);
  return files;
}

static std::vector<HfConfigFile> config_files_beside(const std::string& file) {
  std::vector<HfConfigFile> files;
  for (const std::string& path : hf_config_files(parent_directory(file)))
    files.push_back({path, read_regular_file(path)});
  return files;
}

HfTokenizer::HfTokenizer(const std::string& path)
    : HfTokenizer(read_regular_file(json_path(path)), json_path(path),
                  config_files_beside(json_path(path))) {}

HfTokenizer::HfTokenizer(std::string_view content, const std::string& file,
                         const std::vector<HfConfigFile>& config_files) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  Allowance(8 * content.size()).take_json(content, file);  // real ones are lists of short strings
  if (const auto error = parse_json(parser, content).get(root))
    fail(Exit::bad_data, file, ": ", json_place(content), simdjson::error_message(error));
  const JsonObject object(root, file);
  HfVocabulary vocabulary = read_hf_vocabulary(object.object("model"));
  read(object, vocabulary);
  config_ = read_hf_config(config_files, vocabulary.ids);
  if (config_.llama) {
    template_ = {};
    if (config_.add_bos) template_.before = {config_.bos};
    if (config_.add_eos) template_.after = {config_.eos};
  }
  identity_ = identity_of(content);
}

void HfTokenizer::read(const JsonObject& root, HfVocabulary& vocabulary) {
  if (root.has("version") && root.text("version") != "1.0")
    root.refuse("\"version\": ", json_quoted(root.text("version")), ", expected \"1.0\"");
  if (root.has("normalizer")) normalizer_ = HfNormalizer(root.object("normalizer"));
  if (root.has("pre_tokenizer")) pre_tokenizer_ = HfPreTokenizer(root.object("pre_tokenizer"));
  if (pre_tokenizer_.asks_for_start() && !normalizer_.keeps_start())
    root.refuse("\"prepend_scheme\" is \"first\" behind a normalizer that may take the start away");
  const JsonObject model = root.object("model");
  const bool bytes = pre_tokenizer_.ends_with_bytes() && hf_model_takes_bytes(model, vocabulary);
  if (bytes) pre_tokenizer_.leave_bytes();
  splitter_ = pre_tokenizer_.splitter();
  model_ = make_hf_model(model, vocabulary, bytes);
  if (root.has("decoder")) decoder_ = HfDecoder(root.object("decoder"));
  if (root.has("added_tokens")) add_tokens(root, vocabulary);
  if (decoder_.only_bytes())
    for (std::string& token : vocabulary.tokens) token = from_byte_chars(token).value_or(token);
  tokens_ = TokenBytes(std::move(vocabulary.tokens));
  if (root.has("post_processor"))
    template_ = read_hf_template(root.object("post_processor"), vocab_size());
}

// One that is not in the model's vocabulary gets the next id.
static HfAddedToken read_added_token(const JsonObject& object, HfVocabulary& vocabulary) {
  HfAddedToken token{.id = static_cast<std::int32_t>(object.number("id", 1 << 30)),
                     .content = std::string(object.text("content")),
                     .single_word = object.flag("single_word"),
                     .lstrip = object.flag("lstrip"),
                     .rstrip = object.flag("rstrip"),
                     .normalized = object.flag("normalized"),
                     .special = object.flag("special")};
  if (token.content.empty()) object.refuse("\"content\": empty, expected a token");
  const auto next = static_cast<std::int32_t>(vocabulary.tokens.size());
  const auto [place, is_new] = vocabulary.ids.emplace(token.content, next);
  if (is_new) vocabulary.tokens.push_back(token.content);
  if (place->second != token.id)
    object.refuse("the id of ", json_quoted(token.content), " is ", token.id, ", expected ",
                  place->second);
  return token;
}

void HfTokenizer::add_tokens(const JsonObject& root, HfVocabulary& vocabulary) {
  std::vector<HfAddedToken> raw, normalized;
  StringMap<bool> known;  // as they are looked for: in the normal text or not
  for (const JsonObject& object : root.objects("added_tokens")) {
    HfAddedToken token = read_added_token(object, vocabulary);
    if (token.normalized) {
      normalizer_.apply(token.content);
      if (token.content.empty()) object.refuse("\"content\": empty once it is normalized");
      vocabulary.tokens[token.id] = token.content;
    }
    if (!known.emplace(concat(token.normalized ? "n" : "r", token.content), true).second)
      object.refuse(json_quoted(token.content), " is there twice");
    (token.normalized ? normalized : raw).push_back(std::move(token));
  }
  raw_tokens_ = HfAddedTokens(std::move(raw));
  normalized_tokens_ = HfAddedTokens(std::move(normalized));
}

std::string HfTokenizer::identity_of(std::string_view content) const {
  Hasher hasher;
  hasher.update(kType);
  hasher.update(hash_hex(as_bytes(content)));
  hasher.update(concat(" ", config_.bos, " ", config_.eos));
  for (const auto* ids : {&template_.before, &template_.after}) {
    hasher.update(";");
    for (const std::int32_t id : *ids) hasher.update(concat(" ", id));
  }
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

// --- Decoding. ---

namespace {

class StagedDecoder : public StreamDecoder {
 public:
  StagedDecoder(const HfDecoder& decoder, const TokenBytes& tokens)
      : decoder_(decoder), tokens_(tokens), stages_(decoder.start()) {}

  void push(std::int32_t id, std::string& text) override { run({tokens_.of(id)}, 0, text); }
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
  if (decoder_.only_bytes()) return tokens_.stream_decoder();
  return std::make_unique<StagedDecoder>(decoder_, tokens_);
}

std::string HfTokenizer::decode(std::span<const std::int32_t> ids) const {
  if (decoder_.only_bytes()) return tokens_.decode(ids);
  std::string text;
  StagedDecoder decoder(decoder_, tokens_);
  for (const std::int32_t id : ids) decoder.push(id, text);
  decoder.finish(text);
  return text;
}

}  // namespace mt
