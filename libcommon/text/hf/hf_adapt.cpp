#include "text/hf/hf_adapt.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/json.h"
#include "text/hf/hf_anew.h"
#include "text/hf/hf_json_parts.h"

namespace mt {
namespace {

using enum HfClass::Effect;

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

// Where add_prefix_space is spoken of, the tokenizer is made anew from the class's rules.
void adapt_llama(HfDocument& document, const HfConfig& config) {
  if (!config.add_prefix_space.is_given()) return;
  if (document.has("pre_tokenizer") && is_hf_byte_level(document.object("pre_tokenizer"))) return;
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
  if (normalizer.type() != "BertNormalizer") return;
  HfConfig said = config;
  if (config.tokenizer_class->has(keeps_chinese))
    said.chinese.value = normalizer.flag("handle_chinese_chars") ? HfFlag3::yes : HfFlag3::no;
  document.set("normalizer", hf_bert_normalizer(said, normalizer.flag("clean_text")));
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

bool is_hf_made_anew(const HfConfig& config, int version) {
  const HfClass& kind = *config.tokenizer_class;
  return version >= 5 && kind.has(from_nothing) && (config.from_file || !kind.has(pieces));
}

const HfClass& hf_class_of_document(const HfDocument& document, const HfConfig& config,
                                    int version) {
  const bool bytes = version >= 5 && config.tokenizer_class->name == "LlamaTokenizer" &&
                     document.has("pre_tokenizer") &&
                     is_hf_byte_level(document.object("pre_tokenizer"));
  return bytes ? hf_class("") : *config.tokenizer_class;
}

void mend_hf_roles(HfConfig& config, const HfDocument& document) {
  if (!config.mistaken) return;
  const auto& [text, token] = *config.mistaken;
  for (const JsonObject& object : document.objects("added_tokens"))
    if (object.text("content") == text) return;
  for (auto& role : config.roles)
    if (role && *role && (*role)->token.content == text) role = HfRoleToken{token, true};
}

void adapt_hf_document(HfDocument& document, const HfConfig& config, int version) {
  const HfClass& kind = *config.tokenizer_class;
  if (is_hf_made_anew(config, version)) return make_hf_anew(document, config);
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
  if (version < 5 && config.tokenizer_class->name == "PegasusTokenizer") named.clear();
  if (!config.has_decoder)  // then the file's tokens are the folder's too, by their ids
    for (const JsonObject& object : document.objects("added_tokens"))
      named[object.number("id", 1 << 30)] = read_added_token(object);
  if (!is_hf_made_anew(config, version))
    for (const HfAddedToken& token : files) added.add(token);

  std::set<std::string> there;
  for (const HfAddedToken& token : added.tokens()) there.insert(token.content);
  const std::vector<HfRoleToken> roles = role_tokens(config, version);
  const auto is_named = [&](const std::string& text) {  // in version 5 not by a list alone
    return std::ranges::any_of(roles, [&](const HfRoleToken& role) {
      return role.token.content == text && (version < 5 || !role.is_listed);
    });
  };
  // In version 4 a role does not take the flags of a token of added_tokens.json.
  const auto is_of_list = [&](const std::string& text) {
    return version < 5 && !config.has_decoder &&
           std::ranges::none_of(files, [&](const auto& token) { return token.content == text; });
  };
  std::vector<HfAddedToken> more, again;  // `again`: as what each role is given to
  std::map<std::string, HfAddedToken> by_text;
  for (const auto& [id, token] : named) {
    there.insert(token.content);
    more.push_back(token);
    more.back().special |= is_named(token.content);
    if (!is_of_list(token.content)) by_text.insert_or_assign(token.content, token);
  }
  const auto num_roles = static_cast<std::size_t>(
      std::ranges::count_if(config.roles, [](const auto& role) { return role && *role; }));
  for (std::size_t i = 0; i < roles.size(); ++i) {
    const HfRoleToken& role = roles[i];
    HfRoleToken token = role;
    const auto known = by_text.find(role.token.content);
    if (known != by_text.end() && (version >= 5 || role.is_role)) token = {known->second, true};
    // Version 4 adds each anew whose flags are known, as a special one.
    const bool anew = version < 5 && token.has_flags;
    token.token.special |= version < 5 || is_named(token.token.content);
    if (anew || !there.contains(token.token.content)) more.push_back(token.token);
    again.push_back(i < num_roles && role.is_role ? token.token : role.token);
    again.back().special = true;
  }
  if (is_hf_made_anew(config, version)) {
    const std::string_view name = config.tokenizer_class->name;
    if (name == "Qwen2Tokenizer")
      for (const HfRoleToken& role : roles)  // once more, by their texts alone
        more.push_back({.content = role.token.content, .special = true});
    if (name == "CohereTokenizer" || name == "RemBertTokenizer" || name == "ReformerTokenizer")
      more.insert(more.end(), again.begin(), again.end());
  }
  for (const HfAddedToken& token : more) added.add(token);
}

// Is add_bos_token true where nothing is said of it?
static bool begins_by_itself(const HfClass& kind, int version) {
  return kind.has(begins) && (version < 5 || kind.name == "CodeLlamaTokenizer");
}

// What a translator puts around a text of its language.
static HfEnds language_ends(const HfConfig& config) {
  const std::string_view name = config.tokenizer_class->name;
  constexpr std::string_view kEos = "eos_token";
  HfEnds ends = {.count = true, .language = config.source_language};
  if (ends.language.empty()) ends.language = name == "NllbTokenizer" ? "eng_Latn" : "en_XX";
  if (name == "MBartTokenizer" || (name == "NllbTokenizer" && config.language_behind)) {
    ends.after = {kEos, HfEnds::kLanguage};
  } else {
    ends.before = {HfEnds::kLanguage};
    ends.after = {kEos};
  }
  return ends;
}

static bool is_translator(std::string_view name) {
  return name == "MBartTokenizer" || name == "MBart50Tokenizer" || name == "NllbTokenizer";
}

// What version 5 puts around a text for a class that it makes anew.
static HfEnds anew_ends(const HfClass& kind, bool has_template) {
  const std::vector<std::string_view> cls = {"cls_token"}, sep = {"sep_token"}, eos = {"eos_token"};
  // RemBERT has its own only where the file has another, which ALBERT then takes.
  const bool has_own = kind.name == "AlbertTokenizer"    ? !has_template
                       : kind.name == "RemBertTokenizer" ? has_template
                                                         : kind.has(around) || kind.has(around5);
  if (has_own) return {.count = true, .before = cls, .after = sep};
  if (kind.has(bos_eos5)) return {.count = true, .before = {"bos_token"}, .after = eos};
  if (kind.has(eos_behind5) || kind.name == "T5Tokenizer") return {.count = true, .after = eos};
  if (kind.name == "XGLMTokenizer") return {.count = true, .before = eos};
  if (kind.name == "XLNetTokenizer") return {.count = true, .after = {"sep_token", "cls_token"}};
  if (kind.name == "CodeLlamaTokenizer") return {.count = true, .before = {"bos_token"}};
  return {.count = kind.name == "GPTNeoXTokenizer"};
}

HfEnds hf_ends(const HfConfig& config, int version, bool has_template) {
  const HfClass& kind = *config.tokenizer_class;
  if (is_translator(kind.name)) return language_ends(config);
  // Beside a tokenizer.json version 5 does not read the flags.
  if (config.from_file && version >= 5)
    return is_hf_made_anew(config, version) ? anew_ends(kind, has_template) : HfEnds();
  if (!config.from_file && (kind.has(around) || kind.has(bert)))
    return {.count = true, .before = {"cls_token"}, .after = {"sep_token"}};
  HfEnds by_flags = {.count = true};
  if (config.add_bos.true_or(begins_by_itself(kind, version))) by_flags.before = {"bos_token"};
  if (config.add_eos.or_else(false)) by_flags.after = {"eos_token"};
  if (version < 5)
    return kind.has(ends) || (!config.from_file && kind.name == "GPT2Tokenizer") ? by_flags
                                                                                 : HfEnds();
  if (kind.name == "T5Tokenizer") return {.count = true, .after = {"eos_token"}};
  return config.add_bos.is_given() || config.add_eos.is_given() || kind.has(ends) ? by_flags
                                                                                  : HfEnds();
}

void check_hf_class(const HfConfig& config, int version, const std::string& file) {
  const HfClass& kind = *config.tokenizer_class;
  const bool other = version >= 5 && kind.has(unread5);
  if (kind.has(unread) || other)
    fail(Exit::bad_data, file, ": transformers ", version, " makes a ", kind.name,
         " of it by code that stands in no file; ",
         other && !kind.has(unread)
             ? "--transformers-version 4 reads it"
             : "a tokenizer.json alone, without its configuration, is read as it stands");
  if (!config.from_file && kind.has(from_file))
    fail(Exit::bad_data, file, ": a ", kind.name,
         " is read of a tokenizer.json alone, and there is none");
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
