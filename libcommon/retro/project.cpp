#include "retro/project.h"

#include <simdjson.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_parse.h"

namespace mt {

namespace fs = std::filesystem;

// What its readers expect to find.
constexpr const char* kKeys[] = {"retro_bert_tokenizer_type",
                                 "retro_bert_vocab_file",
                                 "retro_block_size",
                                 "retro_gpt_chunk_length",
                                 "retro_gpt_data_cache_path",
                                 "retro_gpt_data_path",
                                 "retro_gpt_eval_interval",
                                 "retro_gpt_eval_iters",
                                 "retro_gpt_global_batch_size",
                                 "retro_gpt_merge_file",
                                 "retro_gpt_seed",
                                 "retro_gpt_seq_length",
                                 "retro_gpt_split",
                                 "retro_gpt_tokenizer_model",
                                 "retro_gpt_tokenizer_type",
                                 "retro_gpt_train_samples",
                                 "retro_gpt_vocab_file",
                                 "retro_neighbor_dirs"};

RetroProject::RetroProject(std::string folder) : folder_(std::move(folder)) {
  if (!fs::is_directory(path("data")))
    fail(Exit::no_input, path("data"),
         ": no such folder, expected a project's token files, or links to them");
}

std::string RetroProject::path(std::string_view inside) const {
  return (fs::path(folder_) / inside).string();
}

RetroProject::Settings RetroProject::settings() const {
  const std::string file = path("config.json");
  if (!fs::exists(file)) return {};
  const std::string text = read_regular_file(file);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parse_json(parser, text).get(root)) fail_json(text, file, error);
  simdjson::dom::object object;
  if (root.get(object)) fail(Exit::bad_data, file, ": expected a JSON object");
  Settings found;
  for (const auto& [key, value] : object) found[std::string(key)] = simdjson::minify(value);
  return found;
}

std::string RetroProject::setting(const std::string& key) const {
  const Settings all = settings();
  const auto found = all.find(key);
  if (found == all.end() || found->second == "null") return {};
  simdjson::dom::parser parser;
  std::string_view text;
  if (parser.parse(found->second).get(text) != simdjson::SUCCESS)
    fail(Exit::bad_data, path("config.json"), ": ", key, ": is ", found->second,
         ", expected a text");
  return std::string(text);
}

std::int64_t RetroProject::number(const std::string& key, const char* option) const {
  const Settings all = settings();
  const auto found = all.find(key);
  if (found == all.end() || found->second == "null")
    fail(Exit::bad_config, path("config.json"), ": ", key, ": is not known; ", option, " says it");
  simdjson::dom::parser parser;
  std::int64_t number = 0;
  if (parser.parse(found->second).get(number) != simdjson::SUCCESS)
    fail(Exit::bad_data, path("config.json"), ": ", key, ": is ", found->second,
         ", expected a whole number");
  return number;
}

std::vector<std::string> RetroProject::data_paths() const {
  const Settings all = settings();
  const auto found = all.find("retro_gpt_data_path");
  if (found == all.end() || found->second == "null") return {};
  simdjson::dom::parser parser;
  simdjson::dom::array list;
  std::vector<std::string> words;
  bool texts = parser.parse(found->second).get(list) == simdjson::SUCCESS;
  if (texts)
    for (const simdjson::dom::element element : list) {
      std::string_view word;
      texts &= element.get(word) == simdjson::SUCCESS;
      words.emplace_back(word);
    }
  if (!texts)
    fail(Exit::bad_data, path("config.json"), ": retro_gpt_data_path: expected a list of texts");
  // Weights stand in front of all prefixes, or of none.
  const std::size_t each = words.size() > 1 ? 2 : 1;
  for (std::size_t i = each - 1; i < words.size(); i += each) words[i] = data_prefix(words[i]);
  return words;
}

TokenizerOptions RetroProject::gpt_tokenizer() const {
  const auto file = [&](const char* key) {
    const std::string name = setting(key);
    return name.empty() ? name : path(name);
  };
  return {.type = setting("retro_gpt_tokenizer_type"),
          .vocab_file = file("retro_gpt_vocab_file"),
          .merge_file = file("retro_gpt_merge_file"),
          .model = file("retro_gpt_tokenizer_model")};
}

TokenizerOptions RetroProject::bert_tokenizer() const {
  const std::string file = setting("retro_bert_vocab_file");
  return {.type = setting("retro_bert_tokenizer_type"),
          .vocab_file = file.empty() ? file : path(file)};
}

RetroProject::Settings RetroProject::with(const Settings& settings, bool force) const {
  Settings all = this->settings();
  for (const auto& [key, value] : settings) {
    if (value == "null") continue;
    std::string& now = all.try_emplace(key, "null").first->second;
    if (now != "null" && now != value && !force)
      fail(Exit::bad_config, path("config.json"), ": ", key, ": is ", now, " in this project, and ",
           value, " now; --force makes it anew");
    now = value;
  }
  return all;
}

void RetroProject::add_settings(const Settings& settings, bool force) const {
  Settings all = with(settings, force);
  for (const char* key : kKeys) all.try_emplace(key, "null");
  if (all == this->settings()) return;
  JsonWriter json;
  json.begin_object();
  for (const auto& [key, value] : all) json.key(key).raw(value);
  json.end_object();
  write_file_atomically(path("config.json"), indented_json(json.text()), true);
}

std::string indented_json(std::string_view compact) {
  std::string text;
  int depth = 0;
  bool in_string = false;
  const auto new_line = [&] {
    text.append(1, '\n').append(static_cast<std::size_t>(4 * depth), ' ');
  };
  for (std::size_t i = 0; i < compact.size(); ++i) {
    const char c = compact[i];
    if (in_string || c == '"') {
      text += c;
      if (c == '\\') text += compact[++i];
      if (c == '"') in_string = !in_string;
      continue;
    }
    const bool empty = i + 1 < compact.size() && (compact[i + 1] == '}' || compact[i + 1] == ']');
    if (c == '{' || c == '[') {
      text += c;
      ++depth;
      if (!empty) new_line();
    } else if (c == '}' || c == ']') {
      --depth;
      if (text.back() != '{' && text.back() != '[') new_line();
      text += c;
    } else {
      text += c;
      if (c == ',') new_line();
      if (c == ':') text += ' ';
    }
  }
  return text;
}

}  // namespace mt
