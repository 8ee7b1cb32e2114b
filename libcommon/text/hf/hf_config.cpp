#include "text/hf/hf_config.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "base/allowance.h"
#include "base/json_object.h"
#include "base/json_parse.h"
#include "base/json_place.h"

namespace mt {
namespace {

constexpr const char* kConfigName = "tokenizer_config.json";
constexpr const char* kMapName = "special_tokens_map.json";

bool is_there(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// --- post_processor. ---

class TemplateReader {
 public:
  explicit TemplateReader(std::int32_t vocab_size) : last_id_(vocab_size - 1) {}

  void read(const JsonObject& object) {
    const std::string_view type = object.type();
    if (type == "Sequence") {
      for (const JsonObject& part : object.objects("processors")) read(part);
    } else if (type == "TemplateProcessing") {
      start(object);
      read_single(object);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      start(object);
      result.before = {pair_id(object, "cls")};
      result.after = {pair_id(object, "sep")};
    } else if (type != "ByteLevel") {
      object.refuse("the post-processor ", json_quoted(type), " is not known");
    }
  }

  HfTemplate result;

 private:
  void start(const JsonObject& object) {
    if (found_) object.refuse("a second template, expected one");
    found_ = true;
  }

  void read_single(const JsonObject& object) {
    bool text_seen = false;
    for (const JsonObject& piece : object.objects("single")) {
      if (piece.has("SpecialToken")) {
        std::vector<std::int32_t>& ids = text_seen ? result.after : result.before;
        add_ids(object.object("special_tokens").object(piece.object("SpecialToken").text("id")),
                ids);
      } else {
        const std::string_view name = piece.object("Sequence").text("id");
        if (name != "A" || text_seen)
          piece.refuse("sequence ", json_quoted(name), ", expected \"A\" once");
        text_seen = true;
      }
    }
    if (!text_seen) object.refuse("\"single\": no sequence \"A\"");
  }

  void add_ids(const JsonObject& token, std::vector<std::int32_t>& ids) const {
    simdjson::dom::array list;
    if (token.member("ids").get(list)) token.refuse("\"ids\": expected an array");
    for (const simdjson::dom::element id : list) ids.push_back(checked(token, id));
  }

  // The id of ["TOKEN", ID].
  std::int32_t pair_id(const JsonObject& object, std::string_view name) const {
    simdjson::dom::array pair;
    if (object.member(name).get(pair) || pair.size() != 2)
      object.refuse(json_quoted(name), ": expected a token and its id");
    return checked(object, pair.at(1).value());
  }

  std::int32_t checked(const JsonObject& object, simdjson::dom::element element) const {
    std::int64_t id = 0;
    if (element.get(id) || id < 0 || id > last_id_)
      object.refuse("the id ", simdjson::minify(element), ", expected 0 to ", last_id_);
    return static_cast<std::int32_t>(id);
  }

  std::int32_t last_id_;
  bool found_ = false;
};

// --- Configuration. ---

// The text of a token: "TOKEN" or {"content": "TOKEN", ...}; empty where it has none.
std::string token_text(const JsonObject& config, std::string_view name) {
  if (!config.has(name)) return {};
  if (config.member(name).is_string()) return std::string(config.text(name));
  return std::string(config.object(name).text("content"));
}

class ConfigReader {
 public:
  ConfigReader(HfConfig& config, const StringMap<std::int32_t>& ids) : config_(config), ids_(ids) {}

  void read(const HfConfigFile& file) {
    const auto& [path, content] = file;
    simdjson::dom::parser parser;
    simdjson::dom::element root;
    Allowance(content.size()).take_json(content, path);
    if (const auto error = parse_json(parser, content).get(root))
      fail(Exit::bad_data, path, ": ", json_place(content), simdjson::error_message(error));
    const JsonObject object(root, path);
    read_token(object, "bos_token", config_.bos);
    read_token(object, "eos_token", config_.eos);
    if (object.has("tokenizer_class")) read_class(object);
  }

 private:
  void read_token(const JsonObject& object, std::string_view name, std::int32_t& id) const {
    const std::string text = token_text(object, name);
    if (text.empty() || id >= 0) return;
    const auto found = ids_.find(text);
    if (found == ids_.end())
      object.refuse(json_quoted(name), ": ", json_quoted(text), " is no token of tokenizer.json");
    id = found->second;
  }

  void read_class(const JsonObject& object) {
    std::string_view name = object.text("tokenizer_class");
    if (name.ends_with("Fast")) name.remove_suffix(4);
    config_.llama =
        name == "LlamaTokenizer" || name == "CodeLlamaTokenizer" || name == "GemmaTokenizer";
    config_.add_bos = object.flag_or("add_bos_token", true);
    config_.add_eos = object.flag_or("add_eos_token", false);
    if (!config_.llama) return;
    if (config_.add_bos && config_.bos < 0) object.refuse("\"bos_token\": not given");
    if (config_.add_eos && config_.eos < 0) object.refuse("\"eos_token\": not given");
  }

  HfConfig& config_;
  const StringMap<std::int32_t>& ids_;
};

}  // namespace

HfTemplate read_hf_template(const JsonObject& post_processor, std::int32_t vocab_size) {
  TemplateReader reader(vocab_size);
  reader.read(post_processor);
  return reader.result;
}

std::vector<std::string> hf_config_files(const std::string& folder) {
  std::vector<std::string> files;
  for (const char* name : {kConfigName, kMapName})
    if (const std::string path = concat(folder, "/", name); is_there(path)) files.push_back(path);
  return files;
}

HfConfig read_hf_config(const std::vector<HfConfigFile>& files,
                        const StringMap<std::int32_t>& ids) {
  HfConfig config;
  ConfigReader reader(config, ids);
  for (const HfConfigFile& file : files) reader.read(file);
  return config;
}

}  // namespace mt
