#include "text/hf/hf_config.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/allowance.h"
#include "base/json_object.h"
#include "base/json_parse.h"
#include "text/file_names.h"

namespace mt {
namespace {

HfFlag3 flag(const JsonObject& object, std::string_view name) {
  HfFlag3 flag;
  bool value = false;
  simdjson::dom::element element;
  if (const auto names = object.names(); std::ranges::find(names, name) == names.end()) return flag;
  element = object.member(name);
  if (element.is_null())
    flag.value = HfFlag3::null;
  else if (element.get(value))
    object.refuse(json_quoted(name), ": expected true, false or null");
  else
    flag.value = value ? HfFlag3::yes : HfFlag3::no;
  return flag;
}

HfAddedToken token_of(const JsonObject& object, bool special) {
  HfAddedToken token{.content = std::string(object.text("content"))};
  token.special = special || object.flag_or("special", false);
  token.single_word = object.flag_or("single_word", false);
  token.lstrip = object.flag_or("lstrip", false);
  token.rstrip = object.flag_or("rstrip", false);
  token.normalized = object.flag_or("normalized", !token.special);
  return token;
}

// "TOKEN" or {"content":"TOKEN",...}; nothing where it is null.
std::optional<HfRoleToken> role_of(const JsonObject& object, std::string_view name,
                                   simdjson::dom::element value, bool special = true) {
  std::string_view text;
  if (value.is_null()) return std::nullopt;
  if (!value.get(text)) return HfRoleToken{{.content = std::string(text), .special = true}, false};
  HfRoleToken token{token_of({value, concat(object.where(), ": ", name)}, special), true};
  token.is_known = false;
  return token;
}

class ConfigReader {
  static constexpr int kMostExtraIds = 1 << 16;
  static constexpr std::string_view kInfills[] = {"prefix_token", "middle_token", "suffix_token",
                                                  "eot_token", "fill_token"};
  static constexpr std::string_view kAdditional = "additional_special_tokens";
  static constexpr std::string_view kExtra = "extra_special_tokens";

 public:
  explicit ConfigReader(int version) : version_(version) {}

  void read(const HfConfigFile& file) {
    const auto& [path, content] = file;
    const std::string name = path.substr(path.rfind('/') + 1);
    simdjson::dom::parser parser;
    simdjson::dom::element root;
    Allowance(content.size()).take_json(content, path);
    if (const auto error = parse_json(parser, content).get(root)) fail_json(content, path, error);
    const JsonObject object(root, path);
    if (name == kSpecialTokensMap) return read_map(object);
    if (name == kAddedTokensJson) return read_added(object);
    if (name == kHfClassFile) return read_decided(object);
    if (name == kHfModelConfig) return read_model(object);
    read_config(object);
  }

  HfConfig take() {
    const std::vector<HfRoleToken>* lists[] = {&map_named_, &named_, &listed_};
    if (version_ < 5) std::ranges::reverse(lists);
    config_.num_listed = listed_.size();
    for (const auto* const tokens : lists) add_once(config_.more_special, *tokens);
    return std::move(config_);
  }

 private:
  void read_config(const JsonObject& object) {
    config_.has_config = true;
    read_class(object);
    read_roles(object);
    if (version_ < 5)
      read_more(object);
    else
      read_more_5(object);
    read_decoder(object);
    config_.add_bos = flag(object, "add_bos_token");
    config_.add_eos = flag(object, "add_eos_token");
    config_.add_prefix_space = flag(object, "add_prefix_space");
    config_.legacy = flag(object, "legacy");
    config_.clean_up = flag(object, "clean_up_tokenization_spaces");
    config_.split_special = flag(object, "split_special_tokens");
    config_.lower_case = flag(object, "do_lower_case");
    config_.strip_accents = flag(object, "strip_accents");
    config_.keep_accents = flag(object, "keep_accents");
    config_.split_by_punct = flag(object, "split_by_punct");
    config_.chinese = flag(object, "tokenize_chinese_chars");
    if (object.has("extra_ids"))
      config_.extra_ids = static_cast<int>(object.number("extra_ids", kMostExtraIds));
    read_infills(object);
    read_languages(object);
    if (object.has("question_token"))
      config_.question_token =
          role_of(object, "question_token", object.member("question_token"))->token.content;
    config_.mask_token_sent = object.text_or("mask_token_sent", config_.mask_token_sent);
    if (object.has("unk_id"))
      config_.unknown_id = static_cast<std::size_t>(object.number("unk_id", 1 << 30));
    if (object.has("offset"))
      config_.offset = static_cast<std::size_t>(object.number("offset", kMostExtraIds));
  }

  void read_languages(const JsonObject& object) {
    config_.source_language = object.text_or("src_lang", "");
    config_.language_behind = object.flag_or("legacy_behaviour", false);
  }

  void read_infills(const JsonObject& object) {
    const std::vector<std::string_view> names = object.names();
    for (std::size_t i = 0; i < config_.infills.size(); ++i) {
      if (std::ranges::find(names, kInfills[i]) == names.end()) continue;
      const auto token = role_of(object, kInfills[i], object.member(kInfills[i]));
      config_.infills[i] = token ? token->token.content : "";
    }
  }

  // What our own checkpoint keeps has been decided.
  void read_decided(const JsonObject& object) {
    config_.has_class = false;
    read_class(object);
    is_decided_ = config_.has_class;
  }

  void read_model(const JsonObject& object) {
    const bool beside = config_.has_class && !is_decided_;
    read_class(object);
    if (!beside || !object.has("model_type")) return;
    const std::string named = config_.unknown_class.empty()
                                  ? std::string(config_.tokenizer_class->name)
                                  : config_.unknown_class;
    const auto name = hf_class_beside(named, object.text("model_type"), version_);
    if (name != named) set_class(name);
  }

  void set_class(std::string_view name) {
    const bool known = hf_class_is_known(name, version_);
    config_.unknown_class = known ? "" : name;
    config_.tokenizer_class = &hf_class(known || version_ < 5 ? name : "");
  }

  // The first that names one decides.
  void read_class(const JsonObject& object) {
    if (config_.has_class) return;
    std::string_view name = object.text_or("tokenizer_class", "");
    if (name.empty() && object.has("model_type"))
      name = hf_class_of_model(object.text("model_type"), version_);
    config_.has_class = !name.empty();
    if (config_.has_class) set_class(name);
  }

  void read_roles(const JsonObject& object) {
    const std::vector<std::string_view> names = object.names();
    for (std::size_t i = 0; i < kHfRoles.size(); ++i)
      if (std::ranges::find(names, kHfRoles[i]) != names.end())
        config_.roles[i] = role_of(object, kHfRoles[i], object.member(kHfRoles[i]));
  }

  // The first of several with the same text counts.
  static void add_once(std::vector<HfRoleToken>& tokens, const std::vector<HfRoleToken>& more) {
    std::set<std::string> known;
    for (const HfRoleToken& token : tokens) known.insert(token.token.content);
    for (const HfRoleToken& token : more)
      if (known.insert(token.token.content).second) tokens.push_back(token);
  }

  // A list of tokens, or an object whose values they are; null is none.  Without `special` they are
  // what they say of themselves.
  static std::vector<HfRoleToken> tokens_of(const JsonObject& object, std::string_view name,
                                            bool special = true) {
    simdjson::dom::array list;
    std::vector<simdjson::dom::element> values;
    if (object.has(name) && !object.member(name).get(list)) {
      for (const simdjson::dom::element value : list) values.push_back(value);
    } else if (object.has(name)) {
      const JsonObject named = object.object(name);
      for (const std::string_view key : named.names()) values.push_back(named.member(key));
    }
    std::vector<HfRoleToken> tokens;
    for (const simdjson::dom::element value : values)
      if (const auto token = role_of(object, name, value, special)) tokens.push_back(*token);
    return tokens;
  }

  void read_more(const JsonObject& object) {
    config_.has_list_key |= has_name(object, kAdditional);
    config_.has_list |= object.has(kAdditional);
    for (const auto& [name, known] : {std::pair(kAdditional, &listed_), {kExtra, &named_}}) {
      std::vector<HfRoleToken> more = tokens_of(object, name);
      for (HfRoleToken& token : more) token.is_role = false;
      add_once(*known, more);
    }
  }

  // Of version 5, to which additional_special_tokens is an older word for a list of
  // extra_special_tokens, that counts where there is no such list; an object of these, and other
  // names that end with _token, are roles of the model.
  void read_more_5(const JsonObject& object) {
    named_ = tokens_with_names(object);
    const std::vector<HfRoleToken> extra = tokens_of(object, kExtra, false);
    const bool replaced = has_name(object, kAdditional) && extra.empty();
    config_.has_list_key = replaced || (has_name(object, kExtra) && !is_object(object, kExtra));
    config_.has_list =
        object.has(kAdditional) || (!replaced && object.has(kExtra) && !is_object(object, kExtra));
    const bool has_list = has_name(object, kExtra) && !is_object(object, kExtra);
    if (is_object(object, kExtra)) named_.insert(named_.end(), extra.begin(), extra.end());
    set_listed(has_list && !extra.empty() ? extra : tokens_of(object, kAdditional, false));
    is_listed_ = has_list || (has_name(object, kAdditional) && extra.empty());
  }

  void read_map_5(const JsonObject& object) {
    if (has_name(object, kExtra)) config_.has_list_key = !is_object(object, kExtra);
    config_.has_list |=
        object.has(kAdditional) || (object.has(kExtra) && !is_object(object, kExtra));
    map_named_ = tokens_with_names(object);
    std::vector<HfRoleToken> extra = tokens_of(object, kExtra);
    if (is_object(object, kExtra)) {
      named_.insert(named_.end(), extra.begin(), extra.end());
      if (is_listed_) listed_.clear();
      is_listed_ = false;
    } else if (has_name(object, kExtra)) {
      if (!is_listed_) listed_.clear();
      for (HfRoleToken& token : extra) token.is_listed = true;
      add_once(listed_, extra);
      is_listed_ = true;
    }
    if (!is_listed_ && has_name(object, kAdditional)) set_listed(tokens_of(object, kAdditional));
  }

  void set_listed(std::vector<HfRoleToken> tokens) {
    for (HfRoleToken& token : tokens) token.is_listed = true;
    listed_ = std::move(tokens);
  }

  static bool has_name(const JsonObject& object, std::string_view name) {
    const auto names = object.names();
    return std::ranges::find(names, name) != names.end();
  }
  static bool is_object(const JsonObject& object, std::string_view name) {
    return object.has(name) && object.member(name).is_object();
  }

  // Tokens that a model has under names of its own, such as image_token.
  static std::vector<HfRoleToken> tokens_with_names(const JsonObject& object) {
    std::vector<HfRoleToken> tokens;
    for (const std::string_view name : object.names()) {
      std::string_view text;
      const bool is_other = std::ranges::find(kHfRoles, name) != kHfRoles.end() ||
                            std::ranges::find(kInfills, name) != std::end(kInfills);
      if (name.ends_with("_token") && !is_other && !object.member(name).get(text))
        tokens.push_back(HfRoleToken{{.content = std::string(text), .special = true}, false});
    }
    return tokens;
  }

  void read_decoder(const JsonObject& object) {
    if (!object.has("added_tokens_decoder")) return;
    config_.has_decoder = true;
    const JsonObject tokens = object.object("added_tokens_decoder");
    for (const std::string_view key : tokens.names()) {
      std::int64_t id = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size())
        tokens.refuse(json_quoted(key), ": expected an id");
      config_.added.emplace(id, token_of(tokens.object(key), false));
    }
  }

  // Neither of the next two is read where there is an added_tokens_decoder.
  void read_map(const JsonObject& object) {
    if (config_.has_decoder) return;
    read_roles(object);
    for (std::size_t i = 0; i < kHfRoles.size(); ++i)
      if (auto& role = config_.roles[i]; object.has(kHfRoles[i]) && role && *role)
        (*role)->is_known = true;
    if (version_ >= 5) return read_map_5(object);
    read_more(object);
    if (const auto listed = tokens_of(object, kAdditional); !listed.empty())
      last_listed_ = listed.back().token.content;
    for (const HfRoleToken& token : tokens_of(object, kAdditional))
      for (HfRoleToken& known : listed_) known.is_known |= same(known, token);
  }

  void read_added(const JsonObject& object) {
    if (config_.has_decoder) return;
    for (const std::string_view key : object.names()) {
      const bool special = is_special(key);
      const HfAddedToken token = {
          .content = std::string(key), .normalized = !special, .special = special};
      config_.added.emplace(object.number(key, 1 << 30), token);
      if (!last_listed_.empty()) config_.mistaken = {last_listed_, token};
    }
  }

  bool is_special(std::string_view text) const {
    for (const auto& role : config_.roles)
      if (role && *role && (*role)->is_known && (*role)->token.content == text) return true;
    return (version_ < 5 || is_listed_) &&
           std::ranges::any_of(listed_, [&](const HfRoleToken& more) {
             return more.is_known && more.token.content == text;
           });
  }

  static bool same(const HfRoleToken& a, const HfRoleToken& b) { return a.token == b.token; }

  int version_;
  bool is_decided_ = false;
  HfConfig config_;
  // What special_tokens_map.json and the configuration name, and what a list has.  In version 5 a
  // later additional_special_tokens replaces that, unless it is_listed_ as extra_special_tokens.
  std::vector<HfRoleToken> map_named_, named_, listed_;
  std::string last_listed_;  // in special_tokens_map.json, as version 4 reads it
  bool is_listed_ = false;
};

}  // namespace

std::vector<std::string> hf_config_files(const HfIsThere& is_there) {
  std::vector<std::string> files;  // in the order in which they are read
  for (const char* name :
       {kTokenizerConfig, kHfClassFile, kSpecialTokensMap, kAddedTokensJson, kHfModelConfig})
    if (is_there(name)) files.emplace_back(name);
  return files;
}

HfConfig read_hf_config(const std::vector<HfConfigFile>& files, int version) {
  ConfigReader reader(version);
  for (const HfConfigFile& file : files) reader.read(file);
  return reader.take();
}

std::string hf_role(const HfConfig& config, std::string_view role) {
  const auto index = static_cast<std::size_t>(std::ranges::find(kHfRoles, role) - kHfRoles.begin());
  const auto& token = config.roles[index];
  return token && *token ? (*token)->token.content : std::string();
}

}  // namespace mt
