#include "text/hf/hf_adapt.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/json.h"
#include "text/hf/hf_json_parts.h"

namespace mt {
namespace {

using enum HfClass::Effect;

// Does version 5 make everything anew but vocabulary, merges and post-processor?
bool made_anew(const HfConfig& config, int version) {
  return version >= 5 && config.tokenizer_class->has(from_nothing);
}

// --- Pre-tokenizers. ---

// A ByteLevel with another add_prefix_space; nothing where it has that one.
std::optional<std::string> with_prefix_space(const JsonObject& object, bool value) {
  if (object.type() != "ByteLevel" || object.flag("add_prefix_space") == value) return std::nullopt;
  return hf_byte_level(value, object.flag_or("use_regex", true));
}

// This sets add_prefix_space of every ByteLevel, also inside of a Sequence.
std::string with_deep_prefix_space(const JsonObject& object) {
  if (auto changed = with_prefix_space(object, true)) return *changed;
  if (object.type() != "Sequence") return object.json();
  std::string parts;
  for (const JsonObject& part : object.objects("pretokenizers"))
    parts += concat(parts.empty() ? "" : ",", with_deep_prefix_space(part));
  return concat(R"({"type":"Sequence","pretokenizers":[)", parts, "]}");
}

void adapt_prefix_space(HfDocument& document, const HfConfig& config) {
  if (!document.has("pre_tokenizer")) return;
  const JsonObject pre_tokenizer = document.object("pre_tokenizer");
  if (config.tokenizer_class->has(deep_prefix) && config.add_prefix_space.or_else(false))
    return document.set("pre_tokenizer", with_deep_prefix_space(pre_tokenizer));
  // One that is null leaves ByteLevel as it is.
  const bool null =
      config.add_prefix_space.value == HfFlag3::null ||
      (config.add_prefix_space.value == HfFlag3::absent && config.tokenizer_class->has(own_prefix));
  if (null) return;
  if (const auto changed = with_prefix_space(pre_tokenizer, config.add_prefix_space.or_else(false)))
    document.set("pre_tokenizer", *changed);
}

// --- Llama. ---

bool is_byte_level(const JsonObject& object) {
  if (object.type() == "Sequence")
    return std::ranges::any_of(object.objects("pretokenizers"), is_byte_level);
  return object.type() == "ByteLevel";
}

// Where add_prefix_space is spoken of, the tokenizer is made anew from the class's rules.
void adapt_llama(HfDocument& document, const HfConfig& config) {
  if (!config.add_prefix_space.is_given()) return;
  if (document.has("pre_tokenizer") && is_byte_level(document.object("pre_tokenizer"))) return;
  const bool prefix = config.add_prefix_space.or_else(true);
  if (config.legacy.or_else(true)) {
    document.set("normalizer", hf_llama_normalizer(prefix));
    document.set("pre_tokenizer", "null");
  } else {
    document.set("normalizer", "null");
    document.set("pre_tokenizer", hf_metaspace(prefix ? "first" : "never", false));
  }
  document.set("decoder", hf_llama_decoder(prefix));
}

// --- BERT. ---

void adapt_bert(HfDocument& document, const HfConfig& config) {
  if (!document.has("normalizer")) return;
  const JsonObject normalizer = document.object("normalizer");
  if (normalizer.type() == "BertNormalizer")
    document.set("normalizer", hf_bert_normalizer(config, normalizer.flag("clean_text")));
}

// --- Version 5. ---

// The model by the class's rules: `rules` are its members beside vocabulary and merges.
void set_model(HfDocument& document, std::string_view rules) {
  const JsonObject model = document.object("model");
  std::string json = concat("{", rules, R"(,"vocab":)", simdjson::minify(model.member("vocab")));
  if (model.has("merges"))
    json += concat(R"(,"merges":)", simdjson::minify(model.member("merges")));
  document.set("model", json + "}");
}

void make_gpt2(HfDocument& document, const HfConfig& config, bool nfc, bool digits) {
  const bool prefix = config.add_prefix_space.or_else(false);
  document.set("normalizer", nfc ? R"({"type":"NFC"})" : "null");
  document.set("pre_tokenizer",
               digits ? concat(R"({"type":"Sequence","pretokenizers":[{"type":"Digits",)",
                               R"("individual_digits":true},)", hf_byte_level(prefix, true), "]}")
                      : hf_byte_level(prefix, true));
  document.set("decoder", hf_byte_level(prefix, true));
  set_model(document, R"("type":"BPE")");
}

void make_llama(HfDocument& document, const HfConfig& config) {
  const bool prefix = config.add_prefix_space.or_else(true);
  document.set("normalizer", "null");
  const std::string_view scheme = !prefix                        ? "never"
                                  : config.legacy.or_else(false) ? "always"
                                                                 : "first";
  document.set("pre_tokenizer", hf_metaspace(scheme, false));
  document.set("decoder", hf_llama_decoder(prefix));
  set_model(document, R"("type":"BPE","fuse_unk":true,"byte_fallback":true)");
}

void make_gemma(HfDocument& document, const HfConfig& config) {
  document.set("normalizer", std::string(kHfGemmaNormalizer));
  document.set("pre_tokenizer", std::string(kHfGemmaPreTokenizer));
  document.set("decoder", hf_llama_decoder(false));
  std::string unknown = hf_role(config, "unk_token");
  set_model(document, concat(R"("type":"BPE","fuse_unk":true,"byte_fallback":true,"unk_token":)",
                             json_quoted(unknown)));
}

void make_bert(HfDocument& document, const HfConfig& config) {
  document.set("normalizer", hf_bert_normalizer(config, true));
  document.set("pre_tokenizer", R"({"type":"BertPreTokenizer"})");
  document.set("decoder", std::string(kHfWordPieceDecoder));
  set_model(document, concat(R"("type":"WordPiece","continuing_subword_prefix":"##",)",
                             R"("max_input_chars_per_word":100,"unk_token":)",
                             json_quoted(hf_role(config, "unk_token"))));
}

// The map of characters, of all that the normalizer does.
std::string precompiled_of(const JsonObject& normalizer) {
  if (normalizer.type() == "Precompiled") return normalizer.json();
  if (normalizer.type() == "Sequence")
    for (const JsonObject& part : normalizer.objects("normalizers"))
      if (part.type() == "Precompiled") return part.json();
  return "null";
}

void make_t5(HfDocument& document) {
  if (document.has("normalizer"))
    document.set("normalizer", precompiled_of(document.object("normalizer")));
  document.set("pre_tokenizer", std::string(kHfT5PreTokenizer));
  document.set("decoder", hf_metaspace("always", true));
}

void make_anew(HfDocument& document, const HfConfig& config) {
  const std::string_view name = config.tokenizer_class->name;
  const bool roberta = config.tokenizer_class->has(around) && !config.tokenizer_class->has(bert);
  if (name == "GPT2Tokenizer" || name == "CodeGenTokenizer" || roberta)
    return make_gpt2(document, config, false, false);
  if (name == "GPTNeoXTokenizer") return make_gpt2(document, config, true, false);
  if (name == "CohereTokenizer") return make_gpt2(document, config, true, true);
  if (name == "GemmaTokenizer") return make_gemma(document, config);
  if (name == "LlamaTokenizer" || name == "CodeLlamaTokenizer") {
    const bool bytes =
        document.has("pre_tokenizer") && is_byte_level(document.object("pre_tokenizer"));
    return bytes ? void() : make_llama(document, config);
  }
  if (name == "T5Tokenizer") return make_t5(document);
  if (const std::string_view qwen = hf_qwen_pattern(name); !qwen.empty()) {
    make_gpt2(document, config, true, false);
    return document.set("pre_tokenizer",
                        hf_split_bytes(qwen, config.add_prefix_space.or_else(false)));
  }
  make_bert(document, config);
}

// --- Tokens. ---

HfAddedToken read_added_token(const JsonObject& object) {
  return {.content = std::string(object.text("content")),
          .single_word = object.flag("single_word"),
          .lstrip = object.flag("lstrip"),
          .rstrip = object.flag("rstrip"),
          .normalized = object.flag("normalized"),
          .special = object.flag("special")};
}

// Equal but for the id, which the order gives.
bool same(HfAddedToken a, const HfAddedToken& b) {
  a.id = b.id;
  return a == b;
}

// All that have a role, in order; in version 4 each once, by its first, and in version 5 as often
// as it has one.
std::vector<HfRoleToken> role_tokens(const HfConfig& config, int version) {
  std::vector<HfRoleToken> tokens;
  const auto add = [&](const HfRoleToken& role) {
    const auto known = [&](const HfRoleToken& other) {
      return other.token.content == role.token.content;
    };
    if (version >= 5 || std::ranges::none_of(tokens, known)) tokens.push_back(role);
  };
  for (const auto& role : config.roles)
    if (role && *role) add(**role);
  for (const HfRoleToken& more : config.more_special) add(more);
  return tokens;
}

}  // namespace

const HfClass& hf_class_of_document(const HfDocument& document, const HfConfig& config,
                                    int version) {
  const bool bytes = version >= 5 && config.tokenizer_class->name == "LlamaTokenizer" &&
                     document.has("pre_tokenizer") &&
                     is_byte_level(document.object("pre_tokenizer"));
  return bytes ? hf_class("") : *config.tokenizer_class;
}

void adapt_hf_document(HfDocument& document, const HfConfig& config, int version) {
  const HfClass& kind = *config.tokenizer_class;
  if (made_anew(config, version)) return make_anew(document, config);
  if (version >= 5) return;
  if (config.is_said()) adapt_prefix_space(document, config);
  if (kind.has(marks)) adapt_llama(document, config);
  if (kind.has(bert)) adapt_bert(document, config);
}

void add_hf_tokens(HfAddedVocabulary& added, const HfDocument& document, const HfConfig& config,
                   int version) {
  std::vector<HfAddedToken> files;
  for (const JsonObject& object : document.objects("added_tokens"))
    files.push_back(read_added_token(object));
  std::map<std::int64_t, HfAddedToken> named = config.added;
  if (!config.has_decoder)  // then the file's tokens are the folder's too, by their ids
    for (const JsonObject& object : document.objects("added_tokens"))
      named[object.number("id", 1 << 30)] = read_added_token(object);
  if (!made_anew(config, version))
    for (const HfAddedToken& token : files) added.add(token);

  std::set<std::string> there;
  std::map<std::string, HfAddedToken> before;
  for (const HfAddedToken& token : added.tokens()) {
    there.insert(token.content);
    before.emplace(token.content, token);
  }
  const std::vector<HfRoleToken> roles = role_tokens(config, version);
  std::vector<HfAddedToken> more;
  for (const auto& [id, token] : named)
    if (const auto known = before.find(token.content);
        known == before.end() || !same(token, known->second))
      more.push_back(token);
  for (HfAddedToken& token : more) {
    there.insert(token.content);
    token.special |= std::ranges::any_of(roles, [&](const HfRoleToken& role) {
      return role.token.content == token.content && (version < 5 || !role.is_listed);
    });
  }
  for (const HfRoleToken& role : roles) {
    HfRoleToken token = role;
    for (const auto& [id, known] : named) {
      if (known.content != role.token.content) continue;
      if (version >= 5 || role.is_role || !role.has_flags) {
        token = {known, true};
        continue;
      }
      more.push_back(known);  // first as it is there, then with flags of its own
      more.back().special = true;
    }
    // Version 4 adds each anew whose flags are known, as a special one.
    const bool again = version < 5 && token.has_flags;
    token.token.special |= version < 5 || !role.is_listed;
    if (again || !there.contains(token.token.content)) more.push_back(token.token);
  }
  if (made_anew(config, version) && config.tokenizer_class->name == "Qwen2Tokenizer")
    for (const HfRoleToken& role : roles)  // once more, by their texts alone
      more.push_back({.content = role.token.content, .special = true});
  for (const HfAddedToken& token : more) added.add(token);
}

// Is add_bos_token true where nothing is said of it?
static bool begins_by_itself(const HfClass& kind, int version) {
  return kind.has(begins) && (version < 5 || kind.name == "CodeLlamaTokenizer");
}

HfEnds hf_ends(const HfConfig& config, int version, bool from_file) {
  const HfClass& kind = *config.tokenizer_class;
  const HfEnds by_flags = {
      .count = true,
      .before = config.add_bos.true_or(begins_by_itself(kind, version)) ? "bos_token" : nullptr,
      .after = config.add_eos.or_else(false) ? "eos_token" : nullptr};
  if (from_file ? made_anew(config, version) && kind.has(around)
                : kind.has(around) || kind.has(bert))
    return {.count = true, .before = "cls_token", .after = "sep_token"};
  const bool gpt2 = !from_file && kind.name == "GPT2Tokenizer";
  if (version < 5) return kind.has(ends) || gpt2 ? by_flags : HfEnds();
  if (kind.name == "T5Tokenizer") return {.count = true, .after = "eos_token"};
  // Beside a tokenizer.json version 5 does not read the flags.
  if (from_file && kind.name == "CodeLlamaTokenizer") return {.count = true, .before = "bos_token"};
  if (from_file) return {.count = kind.name == "GPTNeoXTokenizer"};
  return config.add_bos.is_given() || config.add_eos.is_given() || kind.has(ends) ? by_flags
                                                                                  : HfEnds();
}

std::string hf_tokens_beyond(const HfDocument& document, const std::vector<HfAddedToken>& tokens,
                             bool special_counts) {
  const auto words = [&](const HfAddedToken& token) {
    return concat(token.content.size(), ":", token.content, token.single_word, token.lstrip,
                  token.rstrip, token.normalized, special_counts && token.special);
  };
  std::set<std::string> known;
  for (const JsonObject& object : document.objects("added_tokens"))
    known.insert(words(read_added_token(object)));
  std::string beyond;
  for (const HfAddedToken& token : tokens)
    if (std::string text = words(token); !known.contains(text)) beyond += text;
  if (special_counts) beyond += "special tokens are text";
  return beyond;
}

}  // namespace mt
