#include "text/hf/hf_config.h"

#include <algorithm>
#include <charconv>

#include "base/allowance.h"
#include "base/json_object.h"
#include "base/json_parse.h"
#include "base/json_place.h"
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
                                   simdjson::dom::element value) {
  std::string_view text;
  if (value.is_null()) return std::nullopt;
  if (!value.get(text)) return HfRoleToken{{.content = std::string(text), .special = true}, false};
  return HfRoleToken{token_of({value, concat(object.where(), ": ", name)}, true), true};
}

class ConfigReader {
  static constexpr int kMostExtraIds = 1 << 16;

 public:
  explicit ConfigReader(int version) : version_(version) {}

  void read(const HfConfigFile& file) {
    const auto& [path, content] = file;
    const std::string name = path.substr(path.rfind('/') + 1);
    simdjson::dom::parser parser;
    simdjson::dom::element root;
    Allowance(content.size()).take_json(content, path);
    if (const auto error = parse_json(parser, content).get(root))
      fail(Exit::bad_data, path, ": ", json_place(content), simdjson::error_message(error));
    const JsonObject object(root, path);
    if (name == kSpecialTokensMap) return read_map(object);
    if (name == kAddedTokensJson) return read_added(object);
    if (name == kHfModelConfig || name == kHfClassFile) return read_class(object);
    read_config(object);
  }

  HfConfig take() { return std::move(config_); }

 private:
  void read_config(const JsonObject& object) {
    config_.has_config = true;
    read_class(object);
    read_roles(object);
    read_more(object, "additional_special_tokens");
    read_more(object, "extra_special_tokens");
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
  }

  void read_infills(const JsonObject& object) {
    constexpr const char* kNames[] = {"prefix_token", "middle_token", "suffix_token", "eot_token",
                                      "fill_token"};
    const std::vector<std::string_view> names = object.names();
    for (std::size_t i = 0; i < config_.infills.size(); ++i) {
      if (std::ranges::find(names, kNames[i]) == names.end()) continue;
      const auto token = role_of(object, kNames[i], object.member(kNames[i]));
      config_.infills[i] = token ? token->token.content : "";
    }
  }

  // The first that names one decides.
  void read_class(const JsonObject& object) {
    if (config_.has_class) return;
    std::string_view name = object.text_or("tokenizer_class", "");
    if (name.empty() && object.has("model_type"))
      name = hf_class_of_model(object.text("model_type"), version_);
    config_.has_class = !name.empty();
    if (config_.has_class) config_.tokenizer_class = &hf_class(name);
  }

  void read_roles(const JsonObject& object) {
    const std::vector<std::string_view> names = object.names();
    for (std::size_t i = 0; i < kHfRoles.size(); ++i)
      if (std::ranges::find(names, kHfRoles[i]) != names.end())
        config_.roles[i] = role_of(object, kHfRoles[i], object.member(kHfRoles[i]));
  }

  // A list of tokens, or an object whose values they are.
  void read_more(const JsonObject& object, std::string_view name) {
    simdjson::dom::array list;
    if (!object.has(name)) return;
    std::vector<simdjson::dom::element> values;
    if (!object.member(name).get(list)) {
      for (const simdjson::dom::element value : list) values.push_back(value);
    } else {
      const JsonObject named = object.object(name);
      for (const std::string_view key : named.names()) values.push_back(named.member(key));
    }
    for (const simdjson::dom::element value : values) {
      const auto token = role_of(object, name, value);
      const auto same = [&](const HfRoleToken& known) {
        return known.token.content == token->token.content;
      };
      if (token && std::ranges::none_of(config_.more_special, same))
        config_.more_special.push_back(*token);
    }
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
    read_more(object, "additional_special_tokens");
    read_more(object, "extra_special_tokens");
  }

  void read_added(const JsonObject& object) {
    if (config_.has_decoder) return;
    for (const std::string_view key : object.names()) {
      const bool special = is_special(key);
      config_.added.emplace(
          object.number(key, 1 << 30),
          HfAddedToken{.content = std::string(key), .normalized = !special, .special = special});
    }
  }

  bool is_special(std::string_view text) const {
    for (const auto& role : config_.roles)
      if (role && *role && (*role)->token.content == text) return true;
    return std::ranges::any_of(config_.more_special,
                               [&](const HfRoleToken& more) { return more.token.content == text; });
  }

  int version_;
  HfConfig config_;
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

// The classes of version 4 whose mask takes the white space before it along.
static bool takes_space(std::string_view name) {
  for (const char* other :
       {"AlbertTokenizer", "XLNetTokenizer", "XLMRobertaTokenizer", "CamembertTokenizer",
        "RobertaTokenizer", "BartTokenizer", "LongformerTokenizer", "MPNetTokenizer"})
    if (name == other) return true;
  return false;
}

// The special tokens that a class has beyond its roles.
static void add_further_special(HfConfig& config, int version) {
  const std::string_view name = config.tokenizer_class->name;
  std::vector<HfRoleToken>& all = config.more_special;
  const auto role = [](std::string text) {
    return HfRoleToken{{.content = std::move(text), .special = true}, false};
  };
  if (name == "CodeLlamaTokenizer") {  // version 5 has one more, and puts them in front
    const std::size_t first = version < 5 ? all.size() : 0;
    std::vector<HfRoleToken> infills;
    for (std::size_t i = 0; i < (version < 5 ? 4 : config.infills.size()); ++i)
      if (!config.infills[i].empty()) infills.push_back(role(config.infills[i]));
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(first), infills.begin(), infills.end());
  }
  const bool t5 = name == "T5Tokenizer" || name == "MT5Tokenizer";
  const auto is_extra = [](const HfRoleToken& other) {
    return other.token.content.find("<extra_id_") != std::string::npos;
  };
  if (t5 && version < 5 && std::ranges::none_of(all, is_extra))
    for (int i = 0; i < config.extra_ids; ++i) all.push_back(role(concat("<extra_id_", i, ">")));
}

void fill_hf_roles(HfConfig& config, int version) {
  const HfClass::Roles roles = hf_class_roles(*config.tokenizer_class, version);
  for (std::size_t i = 0; i < roles.size(); ++i)
    if (!config.roles[i] && !roles[i].empty())
      config.roles[i] = HfRoleToken{{.content = std::string(roles[i]), .special = true}, false};
  add_further_special(config, version);
  constexpr std::size_t kMask = 6;
  static_assert(kHfRoles[kMask] == "mask_token");
  auto& mask = config.roles[kMask];
  if (version < 5 && mask && *mask && !(*mask)->has_flags &&
      takes_space(config.tokenizer_class->name)) {
    (*mask)->token.lstrip = true;
    (*mask)->has_flags = true;
  }
}

std::string hf_role(const HfConfig& config, std::string_view role) {
  const auto index = static_cast<std::size_t>(std::ranges::find(kHfRoles, role) - kHfRoles.begin());
  const auto& token = config.roles[index];
  return token && *token ? (*token)->token.content : std::string();
}

}  // namespace mt
