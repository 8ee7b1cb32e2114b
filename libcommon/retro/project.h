// RetroProject: the folder that Retro's preprocessing fills and its training reads, laid out as
// Megatron-LM core_v0.12.1 does (tools/retro, megatron/core/datasets/retro):
//   config.json              settings that all stages and the training share, keys retro_...
//   data/PREFIX.bin, .idx    token files, or links to them
//   db/                      chunks of the token files (chunk_db.h)
//   index/                   what neighbours of chunks are found with (project_stages.h)
//   query/                   neighbours of the training's chunks (neighbors.h)
// Paths of tokenizers that are relative are so to the project.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace mt {

class RetroProject {
 public:
  explicit RetroProject(std::string folder);  // Exit::no_input where there is none

  std::string path(std::string_view inside) const;  // of a relative path; an absolute one is itself
  std::string data_prefix(std::string_view prefix) const {
    return path("data/" + std::string(prefix));
  }
  std::string db() const { return path("db"); }

  // Settings by their keys in config.json, each as JSON; "null" is unknown.
  using Settings = std::map<std::string, std::string>;
  Settings settings() const;  // those that are in config.json
  // One that is a text; empty where it is unknown.
  std::string setting(const std::string& key) const;
  // One that is a whole number; `option` may say it, Exit::bad_config where it is unknown.
  std::int64_t number(const std::string& key, const char* option) const;
  // retro_gpt_data_path as --data-path takes it, with prefixes where they are; empty where it is
  // unknown.
  std::vector<std::string> data_paths() const;
  // With their files where they are; without a type where it is unknown.
  TokenizerOptions gpt_tokenizer() const;
  TokenizerOptions bert_tokenizer() const;
  // Adds those that are known to config.json, where keys of Megatron's that nobody has set are
  // null. Exit::bad_config where one has another value there, unless `force` replaces it.
  void add_settings(const Settings& settings, bool force) const;
  // Exit::bad_config where one that is known has another value in config.json.
  void check_settings(const Settings& settings) const { with(settings, false); }

 private:
  Settings with(const Settings& settings, bool force) const;  // and those that are there

  std::string folder_;
};

// Keys of the training's parts in config.json and in names of folders, by Split.
inline constexpr const char* kRetroSplitKeys[] = {"train", "valid", "test"};

// The same JSON as Python's json.dump(..., indent=4) lays it out.
std::string indented_json(std::string_view compact);

}  // namespace mt
