#include "formats/hugging_face/tokenizer_files.h"

#include <algorithm>
#include <limits>

#include "base/json.h"
#include "base/json_object.h"
#include "base/json_parse.h"
#include "base/lines.h"
#include "text/hf/hf_tokenizer.h"
#include "text/put_in_front.h"
#include "text/same_ids.h"

namespace mt {
namespace {

// A tokenizer.json; `model` is its last member.
class TokenizerJson {
 public:
  TokenizerJson(const Tokenizer& tokenizer, std::vector<std::int32_t> special)
      : tokenizer_(tokenizer), special_(std::move(special)) {
    std::ranges::sort(special_);
    const auto repeated = std::ranges::unique(special_);
    special_.erase(repeated.begin(), repeated.end());
    std::erase_if(special_, [](std::int32_t id) { return id < 0; });
  }

  void begin(const std::string& normalizer, const std::string& words) {
    json_.begin_object().member("version", "1.0").key("truncation").null().key("padding").null();
    json_.key("added_tokens").begin_array();
    for (const std::int32_t id : special_) {
      json_.begin_object().member("id", id).member("content", text_of(id));
      for (const char* name : {"single_word", "lstrip", "rstrip", "normalized"})
        json_.member(name, false);
      json_.member("special", true).end_object();
    }
    json_.end_array().key("normalizer").raw(normalizer).key("pre_tokenizer").raw(words);
  }

  // What the tokenizer puts in front of a text, and behind it.
  void add_template(const std::string& otherwise) {
    const std::vector<std::int32_t> first = put_in_front(tokenizer_);
    std::vector<std::int32_t> none;
    tokenizer_.encode("", none);
    const std::vector<std::int32_t> last(none.begin() + std::ssize(first), none.end());
    json_.key("post_processor");
    if (first.empty() && last.empty()) {
      json_.raw(otherwise);
      return;
    }
    json_.begin_object().member("type", "TemplateProcessing");
    for (const auto& [kind, texts] : {std::pair("single", "A"), {"pair", "AB"}}) {
      json_.key(kind).begin_array();
      for (const char* text = texts; *text != '\0'; ++text) {
        add_special(first);
        json_.begin_object().key("Sequence").begin_object().member("id", std::string(1, *text));
        json_.member("type_id", 0).end_object().end_object();
        add_special(last);
      }
      json_.end_array();
    }
    std::vector<std::int32_t> ids = first;
    for (const std::int32_t id : last)
      if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
    json_.key("special_tokens").begin_object();
    for (const std::int32_t id : ids) {
      json_.key(text_of(id)).begin_object().member("id", text_of(id)).key("ids").begin_array();
      json_.value(id).end_array().key("tokens").begin_array().value(text_of(id));
      json_.end_array().end_object();
    }
    json_.end_object().end_object();
  }

  JsonWriter& json() { return json_; }
  std::string end() { return json_.end_object().text(); }

 private:
  std::string text_of(std::int32_t id) const { return tokenizer_.decode({&id, 1}); }
  void add_special(const std::vector<std::int32_t>& ids) {
    for (const std::int32_t id : ids) {
      json_.begin_object().key("SpecialToken").begin_object().member("id", text_of(id));
      json_.member("type_id", 0).end_object().end_object();
    }
  }

  const Tokenizer& tokenizer_;
  std::vector<std::int32_t> special_;
  JsonWriter json_;
};

// --- GPT-2's two files --------------------------------------------------------------------------

std::string of_gpt2(const Companion& vocab, const Companion& merges, const Tokenizer& tokenizer) {
  constexpr const char* kByteLevel =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
  TokenizerJson made(tokenizer, {tokenizer.eod()});
  made.begin("null", kByteLevel);
  made.add_template(kByteLevel);
  JsonWriter& json = made.json();
  json.key("decoder").raw(kByteLevel).key("model").begin_object().member("type", "BPE");
  for (const char* name : {"dropout", "unk_token"}) json.key(name).null();
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
    json.member(name, "");
  for (const char* name : {"fuse_unk", "byte_fallback", "ignore_merges"}) json.member(name, false);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  const std::string words = vocab.read(), rules = merges.read();
  if (parse_json(parser, words).get(root)) fail(Exit::bad_data, vocab.name, ": is no JSON");
  json.key("vocab").raw(simdjson::minify(root)).key("merges").begin_array();
  bool first = true;
  for (const std::string_view line : lines_of(rules)) {
    const bool is_rule = !line.empty() && !(first && line.starts_with("#version"));
    first = false;
    if (is_rule) json.value(line);
  }
  json.end_array().end_object();
  return made.end();
}

// --- What stands beside it ----------------------------------------------------------------------

void add_special(JsonWriter& json, const Tokenizer& tokenizer) {
  const SpecialTokens ids = tokenizer.special_ids();
  const std::int32_t eos = ids.eos >= 0 ? ids.eos : tokenizer.eod();
  const bool gpt2 = tokenizer.type() == "GPT2BPETokenizer";  // its one token is all of them
  for (const auto& [name, id] : {std::pair("bos_token", gpt2 ? eos : ids.bos),
                                 {"eos_token", eos},
                                 {"unk_token", gpt2 ? eos : -1},
                                 {"pad_token", ids.pad}})
    if (id >= 0) json.member(name, tokenizer.decode({&id, 1}));
}

std::string config_of(const Tokenizer& tokenizer, bool pieces, std::int64_t positions) {
  JsonWriter json;
  json.begin_object().member("tokenizer_class",
                             pieces ? "LlamaTokenizer" : "PreTrainedTokenizerFast");
  add_special(json, tokenizer);
  if (pieces) json.member("add_bos_token", !put_in_front(tokenizer).empty());
  if (pieces) json.member("add_eos_token", false);
  if (positions < std::numeric_limits<std::int32_t>::max())
    json.member("model_max_length", positions);
  return json.member("clean_up_tokenization_spaces", false).end_object().text() + "\n";
}

}  // namespace

std::vector<Companion> missing_tokenizer_files(const std::vector<Companion>& companions,
                                               const Tokenizer& tokenizer, std::int64_t positions) {
  const auto find = [&](std::string_view name) { return find_companion(companions, name); };
  const Companion *const vocab = find("vocab.json"), *const merges = find("merges.txt");
  const bool pieces = find("tokenizer.model") != nullptr;
  if (find("tokenizer.json") != nullptr) return {};
  if (!pieces && (vocab == nullptr || merges == nullptr)) return {};
  std::vector<Companion> made;
  const auto add = [&](const char* name, const std::string& content) {
    if (find(name) == nullptr) made.push_back({.name = name, .content = content});
  };
  const std::string config = config_of(tokenizer, pieces, positions);
  if (!pieces) {
    const std::string own = of_gpt2(*vocab, *merges, tokenizer);
    const HfTokenizer again(own, "tokenizer.json", {{"tokenizer_config.json", config}});
    if (!same_ids(again, tokenizer)) return {};
    add("tokenizer.json", own);
  }
  add("tokenizer_config.json", config);
  JsonWriter map;
  map.begin_object();
  add_special(map, tokenizer);
  add("special_tokens_map.json", map.end_object().text() + "\n");
  return made;
}

}  // namespace mt
