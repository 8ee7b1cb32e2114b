#include "formats/gguf/gguf_tokenizer.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/json_object.h"
#include "base/json_parse.h"
#include "formats/chat_files.h"
#include "formats/gguf/gguf_patterns.h"
#include "formats/hugging_face/hugging_face_config.h"
#include "formats/hugging_face/tokenizer_files.h"
#include "text/bpe/rank_file.h"
#include "text/file_names.h"
#include "text/hf/hf_tokenizer.h"
#include "text/put_in_front.h"
#include "text/same_ids.h"
#include "text/sentencepiece/sentencepiece_model.h"

namespace mt {
namespace {

// tokenizer.ggml.token_type; SentencePiece's own numbers.
using Type = SentencePieceModel::Type;

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr const char* kEndOfText = "<|endoftext|>";  // GPT-2's only special token

// What errors call a companion.
std::string name_of(const Companion& file) { return file.path.empty() ? file.name : file.path; }

// A JSON file, and its outermost object.
struct Document {
  Document(const std::string& text, const std::string& path)
      : content(text), object(parse(parser, content, path), path) {}
  explicit Document(const Companion& file) : Document(file.read(), name_of(file)) {}
  static simdjson::dom::element parse(simdjson::dom::parser& parser, const std::string& content,
                                      const std::string& path) {
    simdjson::dom::element root;
    if (const auto error = parse_json(parser, content).get(root)) fail_json(content, path, error);
    return root;
  }
  std::string content;
  simdjson::dom::parser parser;
  JsonObject object;
};

// What is put around a text.
std::vector<std::int32_t> around(const Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids;
  tokenizer.encode("", ids);
  return ids;
}

class Vocabulary {
 public:
  Vocabulary(std::int64_t size, const std::vector<Companion>& companions)
      : tokens_(static_cast<std::size_t>(size)),
        types_(tokens_.size(), static_cast<std::int32_t>(Type::unused)),
        companions_(companions) {
    for (std::size_t id = 0; id < tokens_.size(); ++id) tokens_[id] = concat("[PAD", id, "]");
  }

  void read_sentencepiece(const Companion& file);
  void read_tokenizer_json(const Document& document);
  void read_gpt2(const Companion& vocab, const Companion& merges);
  // Tokens of a tokenizer.json that are found in a text before anything else.
  void read_added(const JsonObject& json);
  // `tokenizer`: which has the roles and puts the tokens around a text; null: the files say it.
  void read_special(const JsonObject& config, const Tokenizer* tokenizer);
  void write(GgufKeyValues& to) const;
  void read_ends(const std::string& config, std::int64_t vocab_size);
  bool has_places_for_ends() const { return ends_.size() <= std::size(kMoreEnds); }
  void write_special(GgufKeyValues& to) const;

  // Whether added tokens take spaces around them, or are words alone, which GGUF does not say.
  bool has_flags() const { return has_flags_; }

 private:
  const Companion* find(std::string_view name) const { return find_companion(companions_, name); }
  void set(std::int64_t id, std::string_view token, Type type, const std::string& path) {
    if (id < 0 || id >= std::ssize(tokens_))
      fail(Exit::bad_config, path, ": token ", json_quoted(token), " is ", id,
           ", but the model knows ids below ", tokens_.size());
    tokens_[static_cast<std::size_t>(id)] = token;
    types_[static_cast<std::size_t>(id)] = static_cast<std::int32_t>(type);
  }
  void read_vocab(const JsonObject& vocab);
  void read_word_piece(const JsonObject& json);
  void read_merges(const JsonObject& model);
  void read_template(const JsonObject& post_processor);
  void read_pattern(const JsonObject& json);
  void read_prefix(const JsonObject& json);
  void score_merges();
  void read_roles(const JsonObject& config);
  void read_roles(const Tokenizer& tokenizer);

  std::vector<std::string> tokens_, merges_;
  std::vector<std::int32_t> types_;
  std::vector<float> scores_;  // of SentencePiece's
  std::string model_ = "gpt2", pre_;
  std::map<std::string, std::string> chat_templates_;  // by name; "default" is the first
  std::map<std::string, std::int64_t> special_ids_;    // of added tokens
  std::map<std::string, std::int64_t> ids_;            // by key: bos, eos, ...
  std::vector<std::int32_t> ends_;                     // of a text, beside eos
  std::map<std::string, bool> add_;                    // by key: bos, eos, space_prefix
  std::string first_, last_;                           // that the template puts around a text
  bool has_flags_ = false;
  const std::vector<Companion>& companions_;
};

void Vocabulary::read_sentencepiece(const Companion& file) {
  const std::string path = name_of(file);
  const SentencePieceModel model = parse_sentencepiece_model(file.read(), path);
  if (model.algorithm != SentencePieceModel::Algorithm::bpe)
    fail(Exit::bad_config, path, ": is no BPE, which alone llama.cpp takes for such models");
  model_ = "llama";
  pre_ = "default";
  scores_.assign(tokens_.size(), -10000);
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const auto& piece = model.pieces[id];
    set(static_cast<std::int64_t>(id), piece.text, piece.type, path);
    scores_[id] = piece.score;
  }
  for (const auto& [key, id] :
       {std::pair("bos", model.bos), {"eos", model.eos}, {"unk", model.unk}, {"pad", model.pad}})
    if (id >= 0) ids_[key] = id;
  add_["space_prefix"] = model.normalizer.add_dummy_prefix;
}

void Vocabulary::read_vocab(const JsonObject& vocab) {
  for (const std::string_view token : vocab.names())
    set(vocab.number(token, kMost), token, Type::normal, vocab.where());
}

// Merges are "a b" or ["a", "b"]; a space in one of them is written as GPT-2 writes it, U+0120.
void Vocabulary::read_merges(const JsonObject& model) {
  simdjson::dom::array list;
  if (model.member("merges").get(list)) model.refuse("\"merges\": expected an array");
  for (const simdjson::dom::element merge : list) {
    std::string_view text;
    simdjson::dom::array pair;
    if (!merge.get(text)) {
      merges_.emplace_back(text);
      continue;
    }
    if (merge.get(pair) || pair.size() != 2) model.refuse("\"merges\": expected pairs");
    std::string both;
    for (const simdjson::dom::element part : pair) {
      if (part.get(text)) model.refuse("\"merges\": expected pairs of strings");
      if (!both.empty()) both += ' ';
      for (const char c : text) c == ' ' ? both += "\xC4\xA0" : both += c;
    }
    merges_.push_back(both);
  }
}

void Vocabulary::read_added(const JsonObject& json) {
  if (!json.has("added_tokens")) return;
  for (const JsonObject& token : json.objects("added_tokens")) {
    const std::string text(token.text("content"));
    const std::int64_t id = token.number("id", kMost);
    special_ids_[text] = id;
    set(id, text, token.flag_or("special", false) ? Type::control : Type::user_defined,
        token.where());
    for (const char* flag : {"lstrip", "rstrip", "single_word"})
      has_flags_ = has_flags_ || token.flag_or(flag, false);
    has_flags_ = has_flags_ || (token.flag_or("normalized", false) && json.has("normalizer"));
  }
}

void Vocabulary::read_template(const JsonObject& processor) {
  if (processor.type() == "Sequence")
    for (const JsonObject& part : processor.objects("processors")) read_template(part);
  if (processor.type() != "TemplateProcessing") return;
  const std::vector<JsonObject> single = processor.objects("single");
  const auto special = [](const JsonObject& part) {
    return part.has("SpecialToken") ? std::string(part.object("SpecialToken").text("id")) : "";
  };
  if (single.size() < 2) return;
  first_ = special(single.front());
  last_ = special(single.back());
}

void Vocabulary::read_pattern(const JsonObject& json) {
  if (!json.has("pre_tokenizer")) json.refuse("has no pre_tokenizer, which llama.cpp cuts by");
  const JsonObject words = json.object("pre_tokenizer");
  pre_ = gguf_pattern_of(words, json.object("model").flag_or("ignore_merges", false));
  if (pre_.empty())
    fail(Exit::bad_config, words.where(), ": is none that llama.cpp is known to have");
}

// Whether a text gets a space in front, which is U+2581 in tokens.
void Vocabulary::read_prefix(const JsonObject& json) {
  bool prefix = false;
  if (json.has("normalizer")) {
    const JsonObject normalizer = json.object("normalizer");
    if (normalizer.type() == "Sequence")
      for (const JsonObject& step : normalizer.objects("normalizers"))
        prefix = prefix || step.type() == "Prepend";
  }
  if (json.has("pre_tokenizer")) {
    const JsonObject words = json.object("pre_tokenizer");
    if (words.type() == "Metaspace")
      prefix =
          words.text_or("prepend_scheme",
                        words.flag_or("add_prefix_space", true) ? "always" : "never") != "never";
  }
  add_["space_prefix"] = prefix;
}

// What SentencePiece calls a score, of which the highest is merged first: earlier merges first.
void Vocabulary::score_merges() {
  std::map<std::string, float> rank;
  for (std::size_t i = 0; i < merges_.size(); ++i) {
    std::string token = merges_[i];
    token.erase(token.find(' '), 1);
    rank.emplace(token, -static_cast<float>(i));
  }
  scores_.resize(tokens_.size());
  for (std::size_t id = 0; id < tokens_.size(); ++id)
    if (const auto found = rank.find(tokens_[id]); found != rank.end()) scores_[id] = found->second;
  merges_.clear();
}

// A token begins a word where it is not said that it goes on.
void Vocabulary::read_word_piece(const JsonObject& json) {
  const JsonObject model = json.object("model");
  if (model.text_or("continuing_subword_prefix", kWordGoesOn) != kWordGoesOn)
    model.refuse("\"continuing_subword_prefix\": expected ", json_quoted(kWordGoesOn));
  model_ = "bert";
  pre_ = "default";
  read_vocab(model.object("vocab"));
  read_added(json);
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    if (types_[id] != static_cast<std::int32_t>(Type::normal)) continue;
    std::string& token = tokens_[id];
    token = token.starts_with(kWordGoesOn) ? token.substr(std::string_view(kWordGoesOn).size())
                                           : kWordBegins + token;
  }
  has_flags_ = false;  // which llama.cpp's WordPiece has for its special tokens alone
}

void Vocabulary::read_tokenizer_json(const Document& document) {
  const JsonObject& json = document.object;
  const JsonObject model = json.object("model");
  if (model.text_or("type", "BPE") == "WordPiece") return read_word_piece(json);
  if (model.text_or("type", "BPE") != "BPE")
    fail(Exit::bad_config, model.where(), ": is ", json_quoted(model.type()),
         ", expected \"BPE\" or \"WordPiece\"");
  const bool bytes = model.flag_or("byte_fallback", false);
  read_vocab(model.object("vocab"));
  read_merges(model);
  if (bytes) {
    model_ = "llama";
    pre_ = "default";
    score_merges();
    read_prefix(json);
    for (std::size_t id = 0; id < tokens_.size(); ++id)
      if (byte_of_piece(tokens_[id])) types_[id] = static_cast<std::int32_t>(Type::byte);
  } else {
    read_pattern(json);
  }
  read_added(json);
  if (bytes && model.has("unk_token")) {
    const std::string unknown(model.text("unk_token"));
    const auto at = std::ranges::find(tokens_, unknown);
    if (at == tokens_.end()) model.refuse("no token ", json_quoted(unknown));
    types_[static_cast<std::size_t>(at - tokens_.begin())] =
        static_cast<std::int32_t>(Type::unknown);
  }
  if (json.has("post_processor")) read_template(json.object("post_processor"));
}

void Vocabulary::read_gpt2(const Companion& vocab, const Companion& merges) {
  const std::string lines = merges.read();
  pre_ = "gpt-2";
  read_vocab(Document(vocab).object);
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    const std::string line = lines.substr(begin, end - begin);
    if (!line.empty() && !(begin == 0 && line.starts_with("#version"))) merges_.push_back(line);
    begin = end + 1;
  }
  const auto at = std::ranges::find(tokens_, kEndOfText);
  if (at == tokens_.end()) return;
  const std::int64_t id = at - tokens_.begin();
  types_[static_cast<std::size_t>(id)] = static_cast<std::int32_t>(Type::control);
  ids_["bos"] = ids_["eos"] = id;
}

void Vocabulary::read_roles(const JsonObject& config) {
  for (const char* key : {"bos", "eos"}) {
    const std::string name = concat("add_", key, "_token");
    if (config.has(name)) add_[key] = config.flag(name);
  }
  for (const char* key : {"bos", "eos", "unk", "pad"}) {
    const std::string name = concat(key, "_token");
    std::string_view text;
    if (!config.has(name)) continue;
    if (config.member(name).get(text)) text = config.object(name).text("content");
    if (const auto found = special_ids_.find(std::string(text)); found != special_ids_.end())
      ids_[key] = found->second;
  }
}

void Vocabulary::read_roles(const Tokenizer& tokenizer) {
  const auto* const made = dynamic_cast<const HfTokenizer*>(&tokenizer);
  const SpecialTokens ids = special_tokens(tokenizer);
  for (const auto& [key, id] : {std::pair("bos", ids.bos),
                                {"eos", ids.eos},
                                {"unk", made == nullptr ? -1 : made->unknown()},
                                {"sep", ids.sep},
                                {"pad", ids.pad},
                                {"cls", ids.cls},
                                {"mask", ids.mask}})
    if (id >= 0) ids_[key] = id;
  const std::vector<std::int32_t> before = put_in_front(tokenizer), all = around(tokenizer);
  const bool pieces_of_words = model_ == "bert" && ids.cls >= 0;
  if (pieces_of_words) ids_["bos"] = ids.cls;  // which llama.cpp puts in front
  add_["bos"] = before == std::vector{pieces_of_words ? ids.cls : ids.bos};
  add_["eos"] = all.size() == before.size() + 1 && all.back() == ids.eos;
}

// tokenizer_config.json goes before the model's config.json.
void Vocabulary::read_special(const JsonObject& config, const Tokenizer* tokenizer) {
  chat_templates_ = chat_templates_in(chat_files_of(companions_), "");
  if (tokenizer != nullptr) return read_roles(*tokenizer);
  if (const Companion* const file = find(kTokenizerConfig)) read_roles(Document(*file).object);
  for (const char* key : {"bos", "eos", "unk", "pad"}) {
    std::int64_t id = -1;
    const std::string name = concat(key, "_token_id");
    if (ids_.contains(key) || !config.has(name) || config.member(name).get(id)) continue;
    if (id >= 0 && id < std::ssize(tokens_)) ids_[key] = id;
  }
  for (const auto& [key, text] : {std::pair("bos", first_), {"eos", last_}})
    if (const auto id = ids_.find(key); !text.empty() && !add_.contains(key))
      add_[key] = id != ids_.end() && tokens_[static_cast<std::size_t>(id->second)] == text;
}

// As transformers' generate() has them: generation_config.json's, or, without it, config.json's.
void Vocabulary::read_ends(const std::string& config, std::int64_t vocab_size) {
  const Companion* const file = find("generation_config.json");
  const auto ids = file == nullptr ? token_ids_at("eos_token_id", config, "config.json")
                                   : token_ids_at("eos_token_id", file->read(), name_of(*file));
  for (const std::int32_t id : ids) {
    const bool known = ids_.try_emplace("eos", id).first->second == id;
    if (!known && id < vocab_size && std::ranges::find(ends_, id) == ends_.end())
      ends_.push_back(id);
  }
}

void Vocabulary::write(GgufKeyValues& to) const {
  const std::string stem = "tokenizer.ggml.";
  to.text(stem + "model", model_);
  to.text(stem + "pre", pre_);
  to.texts(stem + "tokens", tokens_);
  if (!scores_.empty()) to.reals(stem + "scores", scores_);
  to.integers(stem + "token_type", types_);
  if (!merges_.empty()) to.texts(stem + "merges", merges_);
  write_special(to);
}

void Vocabulary::write_special(GgufKeyValues& to) const {
  const std::string stem = "tokenizer.ggml.";
  for (const auto& [key, name] : kGgufRoles)
    if (const auto id = ids_.find(key); id != ids_.end())
      to.integer(concat(stem, name, "_token_id"), static_cast<std::uint32_t>(id->second));
  for (std::size_t i = 0; i < std::min(ends_.size(), std::size(kMoreEnds)); ++i)
    to.integer(concat(stem, kMoreEnds[i], "_token_id"), static_cast<std::uint32_t>(ends_[i]));
  for (const auto& [key, value] : add_)
    to.flag(concat(stem, "add_", key, key == "space_prefix" ? "" : "_token"), value);
  std::vector<std::string> names;
  for (const auto& [name, text] : chat_templates_) {
    const bool first = name == "default";
    to.text(first ? kGgufChat : concat(kGgufChat, ".", name), text);
    if (!first) names.push_back(name);
  }
  if (!names.empty()) to.texts(kGgufChats, names);
}

// What the key-values say, as a file that has no others.
std::string gguf_file(const GgufKeyValues& key_values) {
  std::string file = "GGUF";
  const auto add = [&](auto number) {
    file.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  add(std::uint32_t{3});
  add(std::uint64_t{0});
  add(key_values.count());
  file += key_values.bytes();
  constexpr std::size_t kAlignment = 32;
  file.resize((file.size() + kAlignment - 1) / kAlignment * kAlignment);
  return file;
}

// A control token of SentencePiece's is letters in a text, and a special one of Hugging Face's.
bool do_the_same(const Tokenizer& a, const Tokenizer& b) {
  if (a.type() == b.type()) return same_ids(a, b);
  const auto is_special = [](const Tokenizer& tokenizer, std::int32_t id) {
    const auto* const made = dynamic_cast<const HfTokenizer*>(&tokenizer);
    return made != nullptr && (made->is_added(id) || id == made->unknown());
  };
  return a.eod() == b.eod() && around(a) == around(b) && put_in_front(a) == put_in_front(b) &&
         same_words(a, b, [&](std::int32_t id) { return is_special(a, id) || is_special(b, id); });
}

// Whether what is read of them does what the tokenizer does.
bool say_all(const GgufKeyValues& key_values, const Tokenizer& tokenizer, std::int64_t vocab_size) {
  constexpr const char* kName = "model.gguf";
  const std::string file = gguf_file(key_values);
  try {
    const auto made =
        read_gguf_tokenizer(parse_gguf(as_bytes(file), kName, kName).values, kName, vocab_size)
            .make(kName);
    return made != nullptr && do_the_same(*made, tokenizer);
  } catch (const Error&) {
    return false;
  }
}

// Whether special tokens in a text are letters, which no file but tokenizer_config.json says.
bool splits_special(const std::vector<Companion>& companions) {
  const Companion* const config = find_companion(companions, kTokenizerConfig);
  return config != nullptr &&
         read_hf_config({{name_of(*config), config->read()}}, HfTokenizer::kVersion)
             .split_special.or_else(false);
}

// Reads the files, or the tokenizer.json that says what all of them do.
Vocabulary vocabulary_of(const std::vector<Companion>& companions, const std::string& whole,
                         const Tokenizer* tokenizer, const std::string& config,
                         std::int64_t vocab_size) {
  const auto find = [&](std::string_view name) { return find_companion(companions, name); };
  Vocabulary vocabulary(vocab_size, companions);
  const Companion *const json = find(kTokenizerJson), *const pieces = find(kTokenizerModel),
                         *const vocab = find(kVocabJson), *const merges = find(kMergesTxt);
  const std::string path = json == nullptr ? kTokenizerJson : name_of(*json);
  if (json == nullptr && pieces != nullptr && !is_rank_file(pieces->read())) {
    vocabulary.read_sentencepiece(*pieces);
    const bool more = tokenizer != nullptr && tokenizer->type() == HfTokenizer::kType;
    if (more && !whole.empty()) vocabulary.read_added(Document(whole, path).object);
  } else if (!whole.empty()) {
    vocabulary.read_tokenizer_json({whole, path});
  } else if (json != nullptr) {
    vocabulary.read_tokenizer_json(Document(*json));
  } else if (vocab != nullptr && merges != nullptr) {
    vocabulary.read_gpt2(*vocab, *merges);
  } else {
    fail(Exit::bad_config, "is none that llama.cpp is known to have");
  }
  vocabulary.read_special(Document(config, "config.json").object, tokenizer);
  vocabulary.read_ends(config, vocab_size);
  return vocabulary;
}

}  // namespace

std::string add_gguf_tokenizer(GgufKeyValues& key_values, const std::vector<Companion>& companions,
                               const Tokenizer* tokenizer, const std::string& config,
                               std::int64_t vocab_size) {
  const bool there = std::ranges::any_of(
      companions, [](const Companion& file) { return is_tokenizer_file(file.name); });
  // Tokens that a class adds beyond the model are none of it: then the files alone count.
  if (tokenizer != nullptr && tokenizer->vocab_size() > vocab_size) tokenizer = nullptr;
  std::string whole, problem;
  bool all = tokenizer == nullptr;
  try {
    if (tokenizer != nullptr) whole = whole_tokenizer_json(companions, *tokenizer);
    const Vocabulary vocabulary = vocabulary_of(companions, whole, tokenizer, config, vocab_size);
    vocabulary.write(key_values);
    if (tokenizer != nullptr) {
      GgufKeyValues alone;
      vocabulary.write(alone);
      all = !vocabulary.has_flags() && say_all(alone, *tokenizer, vocab_size);
      if (splits_special(companions)) problem = "GGUF has no place for split_special_tokens";
    }
    if (problem.empty() && !vocabulary.has_places_for_ends())
      problem = "GGUF has places for three tokens that end a text, and no more";
    if (all || !problem.empty()) return problem;
    problem = "llama.cpp cannot be told all that the tokenizer does";
  } catch (const Error& error) {
    key_values.text("tokenizer.ggml.model", "no_vocab");
    if (!there) return {};
    problem = concat("llama.cpp is told of no tokenizer: ", error.what());
    if (!whole.empty()) {
      Vocabulary none(0, companions);
      none.read_special(Document(config, "config.json").object, tokenizer);
      none.read_ends(config, vocab_size);
      none.write_special(key_values);
    }
  }
  if (whole.empty()) return problem;
  key_values.text(kGgufHuggingFace, whole);
  const bool splits = splits_special(companions);
  return concat(problem, "; ", kGgufHuggingFace, " has all of it",
                splits ? " but split_special_tokens, for which GGUF has no place" : "");
}

}  // namespace mt
