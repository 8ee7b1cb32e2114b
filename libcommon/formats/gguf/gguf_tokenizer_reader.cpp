#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/json_object.h"
#include "base/utf8.h"
#include "formats/gguf/gguf_patterns.h"
#include "formats/gguf/gguf_tokenizer.h"
#include "text/file_names.h"
#include "text/hf/hf_tokenizer.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/sentencepiece/sentencepiece_tokenizer.h"

namespace mt {
namespace {

using Type = SentencePieceModel::Type;

constexpr const char* kStem = "tokenizer.ggml.";

// The fields of a protobuf message (https://protobuf.dev/programming-guides/encoding).
class Message {
 public:
  Message& number(std::uint64_t field, std::uint64_t value) {
    varint(field << 3);
    varint(value);
    return *this;
  }
  Message& real(std::uint64_t field, float value) {
    varint(field << 3 | 5);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Message& text(std::uint64_t field, std::string_view value) {
    varint(field << 3 | 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

std::string text_of(const Tokenizer& tokenizer, std::int32_t id) {
  return tokenizer.decode({&id, 1});
}

class Reader {
 public:
  Reader(const std::map<std::string, GgufValue>& values, const std::string& path,
         std::int64_t vocab_size)
      : values_(values), path_(path) {
    if (find_value(kGgufHuggingFace) != nullptr) {
      read_whole(vocab_size);
      return;
    }
    tokens_ = at("tokens").as_texts(where("tokens"));
    if (std::ssize(tokens_) != vocab_size)
      fail(Exit::bad_data, where("tokens"), ": are ", tokens_.size(), ", but the model has ",
           vocab_size);
    types_.assign(tokens_.size(), static_cast<std::int64_t>(Type::normal));
    if (find("token_type") != nullptr) types_ = at("token_type").as_integers(where("token_type"));
    if (types_.size() != tokens_.size())
      fail(Exit::bad_data, where("token_type"), ": are ", types_.size(), " of ", tokens_.size(),
           " tokens");
    while (!tokens_.empty() && is(tokens_.size() - 1, Type::unused)) {  // they fill a vocabulary up
      tokens_.pop_back();
      types_.pop_back();
    }
    for (const std::string_view token : tokens_)
      if (!is_valid_utf8(token)) fail(Exit::bad_data, where("tokens"), ": one is not UTF-8");
    read_special(std::ssize(tokens_));
  }

  std::vector<Companion> files() const {
    std::vector<Companion> files;
    if (!whole_.empty()) {
      files.push_back({.name = kTokenizerJson, .content = whole_});
      files.push_back({.name = kTokenizerConfig, .content = config_json(false)});
      return files;
    }
    const std::string model = at("model").as_text(where("model"));
    if (model == "gpt2") {
      files.push_back({.name = kTokenizerJson, .content = tokenizer_json()});
      const HfTokenizer check(files[0].content, concat(path_, ": its tokenizer"), {});
    } else if (model == "llama") {
      files.push_back({.name = kTokenizerModel, .content = sentencepiece_model()});
      const std::string name = concat(path_, ": its tokenizer");
      if (parse_sentencepiece_model(files[0].content, name).bos < 0)
        fail(Exit::bad_data, where("bos_token_id"), ": names no control token");
    } else if (model == "bert") {
      files.push_back({.name = kTokenizerJson, .content = word_piece_json()});
      const HfTokenizer check(files[0].content, concat(path_, ": its tokenizer"), {});
    } else {
      fail(Exit::bad_config, where("model"), ": is ", json_quoted(model),
           ", expected gpt2, llama or bert");
    }
    files.push_back({.name = kTokenizerConfig, .content = config_json(model == "llama")});
    return files;
  }

 private:
  std::string where(const std::string& key) const { return concat(path_, ": ", kStem, key); }
  const GgufValue* find_value(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
  }
  const GgufValue& value(const std::string& key) const {
    const GgufValue* const found = find_value(key);
    if (found == nullptr) fail(Exit::bad_data, path_, ": ", key, ": is not there");
    return *found;
  }
  const GgufValue* find(const std::string& key) const { return find_value(kStem + key); }
  const GgufValue& at(const std::string& key) const { return value(kStem + key); }

  void read_special(std::int64_t size) {
    for (const auto& [key, name] : kGgufRoles) {
      const std::string member = concat(name, "_token_id");
      if (find(member) == nullptr) continue;
      const std::int64_t id = at(member).as_integer(where(member));
      if (id >= 0 && id < size) special_[key] = static_cast<std::size_t>(id);
    }
  }

  // The text of each token is the tokenizer's own.
  void read_whole(std::int64_t vocab_size) {
    const std::string name = concat(path_, ": ", kGgufHuggingFace);
    whole_ = value(kGgufHuggingFace).as_text(name);
    const HfTokenizer made(whole_, name, {});
    if (made.vocab_size() > vocab_size)
      fail(Exit::bad_data, name, ": has ", made.vocab_size(), " tokens, but the model has ",
           vocab_size);
    read_special(made.vocab_size());
    for (const auto& [role, id] : special_)
      role_texts_[role] = text_of(made, static_cast<std::int32_t>(id));
  }

  bool is(std::size_t id, Type type) const { return types_[id] == static_cast<std::int64_t>(type); }
  bool is_added(std::size_t id) const {
    return is(id, Type::control) || is(id, Type::unknown) || is(id, Type::user_defined);
  }
  bool flag_or(const std::string& key, bool other) const {
    return find(key) == nullptr ? other : at(key).as_flag(where(key));
  }
  // The token that is put in front of a text, or behind it; null for none.
  const std::size_t* put(const char* key, bool usual) const {
    const auto id = special_.find(key);
    const bool there = id != special_.end() && flag_or(concat("add_", key, "_token"), usual);
    return there ? &id->second : nullptr;
  }

  // --- tokenizer.json ---

  std::string tokenizer_json() const {
    const std::string pre = at("pre").as_text(where("pre"));
    const GgufPattern* const pattern = find_gguf_pattern(pre);
    if (pattern == nullptr)
      fail(Exit::bad_config, where("pre"), ": is ", json_quoted(pre),
           ", of which no pattern is known");
    JsonWriter json;
    json.begin_object().member("version", "1.0").key("truncation").null().key("padding").null();
    add_added_tokens(json.key("added_tokens"));
    json.key("normalizer");
    if (pattern->nfc)
      json.begin_object().member("type", "NFC").end_object();
    else
      json.null();
    json.key("pre_tokenizer").raw(pre_tokenizer_of(*pattern));
    add_template(json.key("post_processor"), pattern->adds_bos);
    add_byte_level(json.key("decoder"), true);
    add_model(json.key("model"), *pattern);
    return json.end_object().text();
  }

  // As a BERT's class has it that knows no capitals, which llama.cpp does not either.
  std::string word_piece_json() const {
    const auto role = [&](const char* key) -> const std::size_t& {
      const auto id = special_.find(key);
      if (id == special_.end()) fail(Exit::bad_data, path_, ": no token is ", key);
      return id->second;
    };
    const std::size_t &first = special_.contains("cls") ? role("cls") : role("bos"),
                      &last = special_.contains("sep") ? role("sep") : role("eos");
    JsonWriter json;
    json.begin_object().member("version", "1.0").key("truncation").null().key("padding").null();
    add_added_tokens(json.key("added_tokens"));
    json.key("normalizer").begin_object().member("type", "BertNormalizer");
    json.member("clean_text", true)
        .member("handle_chinese_chars", true)
        .key("strip_accents")
        .null();
    json.member("lowercase", true).end_object();
    json.key("pre_tokenizer").begin_object().member("type", "BertPreTokenizer").end_object();
    add_template(json.key("post_processor"), &first, &last);
    json.key("decoder").begin_object().member("type", "WordPiece").member("prefix", kWordGoesOn);
    json.member("cleanup", true).end_object();
    json.key("model").begin_object().member("type", "WordPiece");
    json.member("unk_token", tokens_[role("unk")]);
    json.member("continuing_subword_prefix", kWordGoesOn);
    json.member("max_input_chars_per_word", 100).key("vocab").begin_object();
    const std::string_view begins = kWordBegins;
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      const std::string_view token = tokens_[id];
      if (is_added(id))
        json.member(token, id);
      else if (token.starts_with(begins))
        json.member(token.substr(begins.size()), id);
      else
        json.member(concat(kWordGoesOn, token), id);
    }
    return json.end_object().end_object().end_object().text();
  }

  void add_added_tokens(JsonWriter& json) const {
    json.begin_array();
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      if (!is_added(id)) continue;
      json.begin_object().member("id", id).member("content", tokens_[id]);
      for (const char* name : {"single_word", "lstrip", "rstrip", "normalized"})
        json.member(name, false);
      json.member("special", !is(id, Type::user_defined)).end_object();
    }
    json.end_array();
  }

  static void add_byte_level(JsonWriter& json, bool use_regex) {
    json.begin_object().member("type", "ByteLevel").member("add_prefix_space", false);
    json.member("trim_offsets", true).member("use_regex", use_regex).end_object();
  }

  void add_template(JsonWriter& json, bool usual) const {
    add_template(json, put("bos", usual), put("eos", false));
  }
  void add_template(JsonWriter& json, const std::size_t* first, const std::size_t* last) const {
    if (first == nullptr && last == nullptr) return add_byte_level(json, true);
    const auto add = [&](const std::size_t* id) {
      if (id == nullptr) return;
      json.begin_object().key("SpecialToken").begin_object().member("id", tokens_[*id]);
      json.member("type_id", 0).end_object().end_object();
    };
    json.begin_object().member("type", "TemplateProcessing");
    for (const auto& [kind, texts] : {std::pair("single", "A"), {"pair", "AB"}}) {
      json.key(kind).begin_array();
      for (const char* text = texts; *text != '\0'; ++text) {
        add(first);
        json.begin_object().key("Sequence").begin_object().member("id", std::string(1, *text));
        json.member("type_id", 0).end_object().end_object();
        add(last);
      }
      json.end_array();
    }
    json.key("special_tokens").begin_object();
    for (const std::size_t* id : {first, last == first ? nullptr : last}) {
      if (id == nullptr) continue;
      json.key(tokens_[*id]).begin_object().member("id", tokens_[*id]).key("ids").begin_array();
      json.value(*id).end_array().key("tokens").begin_array().value(tokens_[*id]);
      json.end_array().end_object();
    }
    json.end_object().end_object();
  }

  void add_model(JsonWriter& json, const GgufPattern& pattern) const {
    json.begin_object().member("type", "BPE");
    for (const char* name :
         {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"})
      json.key(name).null();
    json.member("fuse_unk", false).member("byte_fallback", false);
    json.member("ignore_merges", pattern.ignore_merges).key("vocab").begin_object();
    // Ids of a vocabulary have no holes: added tokens among the others are part of it.
    std::size_t words = tokens_.size();
    while (words > 0 && is_added(words - 1)) --words;
    for (std::size_t id = 0; id < words; ++id) json.member(tokens_[id], id);
    json.end_object().key("merges").begin_array();
    for (const std::string_view merge : at("merges").as_texts(where("merges"))) json.value(merge);
    json.end_array().end_object();
  }

  // --- tokenizer.model ---

  std::string sentencepiece_model() const {
    const std::vector<float> scores = at("scores").as_reals(where("scores"));
    if (scores.size() < tokens_.size())
      fail(Exit::bad_data, where("scores"), ": are ", scores.size(), " of ", tokens_.size(),
           " tokens");
    Message model, trainer, normalizer;
    bool bytes = false;
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      Message piece;
      piece.text(1, tokens_[id]).real(2, scores[id]);
      model.text(1, piece.number(3, static_cast<std::uint64_t>(types_[id])).bytes());
      bytes = bytes || is(id, Type::byte);
    }
    trainer.number(3, static_cast<std::uint64_t>(SentencePieceModel::Algorithm::bpe));
    trainer.number(4, tokens_.size()).number(35, bytes);
    std::uint64_t field = 40;  // unk_id, bos_id, ...; 5 more are unk_piece, bos_piece, ...
    for (const char* key : {"unk", "bos", "eos", "pad"}) {
      const auto id = special_.find(key);
      const bool there = id != special_.end();
      trainer.number(field, there ? id->second : ~std::uint64_t{0});
      if (there) trainer.text(field + 5, tokens_[id->second]);
      ++field;
    }
    normalizer.text(1, "identity").number(3, flag_or("add_space_prefix", true));
    normalizer.number(4, flag_or("remove_extra_whitespaces", false)).number(5, 1);
    return model.text(2, trainer.bytes()).text(3, normalizer.bytes()).bytes();
  }

  // --- tokenizer_config.json ---

  std::string config_json(bool pieces) const {
    JsonWriter json;
    json.begin_object().member("tokenizer_class",
                               pieces ? "LlamaTokenizer" : "PreTrainedTokenizerFast");
    for (const auto& [key, id] : special_)
      json.member(concat(key, "_token"), whole_.empty() ? tokens_[id] : role_texts_.at(key));
    if (!whole_.empty()) json.key("add_prefix_space").null();  // as the file has it
    if (pieces) {
      json.member("add_bos_token", put("bos", true) != nullptr)
          .member("add_eos_token", put("eos", false) != nullptr);
      if (!flag_or("add_space_prefix", true)) json.member("add_prefix_space", false);
    }
    add_chat_templates(json);
    return json.end_object().text();
  }

  std::string chat_template(const std::string& key) const {
    return value(key).as_text(concat(path_, ": ", key));
  }

  // One, or a list of all with their names.
  void add_chat_templates(JsonWriter& json) const {
    const bool first = find_value(kGgufChat) != nullptr;
    const GgufValue* const more = find_value(kGgufChats);
    if (more == nullptr) {
      if (first) json.member("chat_template", chat_template(kGgufChat));
      return;
    }
    const auto add = [&](std::string_view name, const std::string& key) {
      json.begin_object().member("name", name).member("template", chat_template(key)).end_object();
    };
    json.key("chat_template").begin_array();
    if (first) add("default", kGgufChat);
    for (const std::string_view name : more->as_texts(concat(path_, ": ", kGgufChats)))
      add(name, concat(kGgufChat, ".", name));
    json.end_array();
  }

  const std::map<std::string, GgufValue>& values_;
  const std::string& path_;
  std::string whole_;                              // a tokenizer.json
  std::map<std::string, std::string> role_texts_;  // of its
  std::vector<std::string_view> tokens_;
  std::vector<std::int64_t> types_;
  std::map<std::string, std::size_t> special_;  // ids by key: bos, eos, ...
};

}  // namespace

GgufTokenizer read_gguf_tokenizer(const std::map<std::string, GgufValue>& values,
                                  const std::string& path, std::int64_t vocab_size) {
  const auto model = values.find(concat(kStem, "model"));
  const std::string none = JsonWriter().value("no_vocab").text();
  const bool is_none = model == values.end() || model->second.json() == none;
  if (is_none && !values.contains(kGgufHuggingFace)) return {};
  try {
    return {.files = Reader(values, path, vocab_size).files()};
  } catch (const Error& error) {
    return {.problem = error.what()};
  }
}

std::unique_ptr<Tokenizer> GgufTokenizer::make(const std::string& where) const {
  const Companion* const config = find_companion(files, kTokenizerConfig);
  if (const Companion* const json = find_companion(files, kTokenizerJson))
    return std::make_unique<HfTokenizer>(json->content, where,
                                         std::vector<HfConfigFile>{{where, config->content}});
  const Companion* const pieces = find_companion(files, kTokenizerModel);
  if (pieces == nullptr) return nullptr;
  const bool puts_bos =
      read_hf_config({{where, config->content}}, HfTokenizer::kVersion).add_bos.or_else(true);
  return std::make_unique<SentencePieceModelTokenizer>(
      puts_bos ? SentencePieceModelTokenizer::kLlama2Type : SentencePieceModelTokenizer::kGptType,
      pieces->content, where);
}

}  // namespace mt
