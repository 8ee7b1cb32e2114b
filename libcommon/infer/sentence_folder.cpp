#include "infer/sentence_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/json_object.h"
#include "base/json_parse.h"

namespace mt {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;

// A file of JSON, for as long as its element is looked at.
class JsonFile {
 public:
  explicit JsonFile(std::string path) : path_(std::move(path)) {
    const std::string content = read_regular_file(path_);
    if (const auto error = parse_json(parser_, content).get(root_))
      fail_json(content, path_, error);
  }
  static bool is_there(const std::string& path) { return std::filesystem::exists(path); }
  JsonObject object() const { return {root_, path_}; }
  simdjson::dom::array array() const {
    simdjson::dom::array list;
    if (root_.get(list)) fail(Exit::bad_data, path_, ": expected an array");
    return list;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  simdjson::dom::parser parser_;
  simdjson::dom::element root_;
};

TextPooling pooling_named(const JsonObject& json, std::string_view name) {
  if (name == "cls") return TextPooling::cls;
  if (name == "mean") return TextPooling::mean;
  json.refuse("pooling of ", json_quoted(name), ", expected cls or mean");
}

TextPooling read_pooling(const std::string& path) {
  const JsonFile file(path);
  const JsonObject json = file.object();
  if (!json.flag_or("include_prompt", true))
    json.refuse("\"include_prompt\" is false: that prompts do not count is not supported");
  if (json.has("pooling_mode")) return pooling_named(json, json.text("pooling_mode"));
  constexpr std::string_view kMode = "pooling_mode_";
  std::string found;
  for (const std::string_view name : json.names()) {
    if (!name.starts_with(kMode) || !json.flag(name)) continue;
    if (!found.empty()) json.refuse("several poolings at once, expected one");
    found = name.substr(kMode.size());
  }
  const std::size_t end = found.find("_token");
  return found.empty() ? TextPooling::mean : pooling_named(json, found.substr(0, end));
}

std::string within(const std::string& folder, std::string_view name) {
  return (std::filesystem::path(folder) / name).string();
}

void read_modules(const std::string& folder, SentenceFolder& found) {
  const JsonFile modules(within(folder, "modules.json"));
  std::size_t at = 0;
  for (const simdjson::dom::element element : modules.array()) {
    const JsonObject module(element, concat(modules.path(), ": module ", at));
    const std::string_view type = module.type();
    const std::string_view kind = type.substr(type.rfind('.') + 1);
    const std::string_view path = module.text_or("path", "");
    if (at == 0 && (kind != "Transformer" || !path.empty()))
      module.refuse(json_quoted(kind), ", expected the model itself, a Transformer in that folder");
    if (at == 1 && kind != "Pooling") module.refuse(json_quoted(kind), ", expected a Pooling");
    if (at == 1) found.pooling = read_pooling(within(within(folder, path), "config.json"));
    if (at > 1 && kind != "Normalize")
      module.refuse(json_quoted(kind), ", which is not supported; expected Normalize or nothing");
    if (at > 1) found.normalize = true;
    ++at;
  }
  if (at < 2) fail(Exit::bad_data, modules.path(), ": expected a model and a Pooling");
}

// The file of the model's settings has been called by each kind of model.
constexpr std::array kSettings = {
    "sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json",
    "sentence_camembert_config.json", "sentence_xlm-roberta_config.json"};

void read_settings(const std::string& folder, SentenceFolder& found) {
  const auto* const name = std::ranges::find_if(
      kSettings, [&](const char* file) { return JsonFile::is_there(within(folder, file)); });
  if (name == kSettings.end()) return;
  const JsonFile file(within(folder, *name));
  const JsonObject json = file.object();
  found.lower_case = json.flag_or("do_lower_case", false);
  if (!json.has("max_seq_length")) return;
  found.max_tokens = json.number("max_seq_length", kMostTokens);
  if (found.max_tokens < 3)
    json.refuse("\"max_seq_length\" is ", found.max_tokens, ", expected at least 3");
}

// Version 6 keeps the length with the tokenizer alone, where 1e30 is none.
void read_tokenizer_length(const std::string& folder, SentenceFolder& found) {
  const std::string path = within(folder, "tokenizer_config.json");
  if (found.max_tokens > 0 || !JsonFile::is_there(path)) return;
  const JsonFile file(path);
  const JsonObject json = file.object();
  if (!json.has("model_max_length")) return;
  const double most = json.real("model_max_length");
  if (most >= 3 && most < static_cast<double>(kMostTokens))
    found.max_tokens = static_cast<std::int64_t>(most);
}

void read_prompts(const std::string& folder, SentenceFolder& found) {
  const std::string path = within(folder, "config_sentence_transformers.json");
  if (!JsonFile::is_there(path)) return;
  const JsonFile file(path);
  const JsonObject json = file.object();
  if (json.has("prompts")) {
    const JsonObject prompts = json.object("prompts");
    for (const std::string_view name : prompts.names())
      found.prompts[std::string(name)] = prompts.text(name);
  }
  if (!json.has("default_prompt_name")) return;
  const std::string name(json.text("default_prompt_name"));
  const auto prompt = found.prompts.find(name);
  if (prompt == found.prompts.end())
    json.refuse("\"default_prompt_name\" is ", json_quoted(name), ", which is none of its prompts");
  found.default_prompt = prompt->second;
}

}  // namespace

std::optional<SentenceFolder> read_sentence_folder(const std::string& folder) {
  if (!JsonFile::is_there(within(folder, "modules.json"))) return {};
  SentenceFolder found{.is_there = true};
  read_modules(folder, found);
  read_settings(folder, found);
  read_tokenizer_length(folder, found);
  read_prompts(folder, found);
  return found;
}

}  // namespace mt
