#include "retro/stage_files.h"

#include <simdjson.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"

namespace mt {

namespace fs = std::filesystem;

static std::string list_path(const std::string& folder) { return folder + "/manifest.jsonl"; }

StageFiles::StageFiles(const std::string& folder, bool force)
    : folder_(folder),
      force_(force),
      list_(File::append(list_path(folder))),  // makes the folder
      lock_(std::make_unique<SaveLock>(folder)) {
  read();
}

void StageFiles::read() {
  const std::string text = read_regular_file(list_path(folder_));
  simdjson::dom::parser parser;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    simdjson::dom::element element;
    std::string_view file, made_of, hash;
    // One that was cut is of a file that never got its name.
    if (parser.parse(line.data(), line.size()).get(element) == simdjson::SUCCESS &&
        element["file"].get(file) == simdjson::SUCCESS &&
        element["made_of"].get(made_of) == simdjson::SUCCESS &&
        element["hash"].get(hash) == simdjson::SUCCESS)
      entries_[std::string(file)] = {std::string(made_of), std::string(hash)};
  }
}

bool StageFiles::has(const std::string& file, const std::string& made_of, const Log& log) const {
  if (!fs::exists(path(file))) return false;
  const auto entry = entries_.find(file);
  if (entry == entries_.end()) {
    if (force_) return false;
    fail(Exit::cannot_create, path(file), ": exists, and ", list_path(folder_),
         " does not list it: made by another program; --force replaces it");
  }
  if (entry->second.made_of != made_of) {
    if (force_) return false;
    fail(Exit::bad_config, path(file),
         ": was made of other token files, by other tokenizers or with other settings; --force "
         "makes it anew");
  }
  if (entry->second.hash == hash_file(path(file))) return true;
  log.warn(concat(path(file), ": is damaged, and made anew"));
  return false;
}

void StageFiles::refuse_others(const std::string& folder,
                               const std::vector<std::string>& files) const {
  if (!fs::is_directory(path(folder))) return;
  for (const auto& entry : fs::directory_iterator(path(folder))) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".hdf5" || std::ranges::count(files, name) > 0) continue;
    if (!force_)
      fail(Exit::cannot_create, entry.path().string(),
           ": is no block of this database, whose readers would take it for one; --force removes "
           "it");
    fs::remove(entry.path());
  }
}

const std::string& StageFiles::hash(const std::string& file) const {
  return entries_.at(file).hash;
}

void StageFiles::commit(Hdf5Writer& writer, const std::string& file, const std::string& made_of) {
  const std::string hash = writer.finish();
  JsonWriter json;
  json.begin_object()
      .member("file", file)
      .member("made_of", made_of)
      .member("hash", hash)
      .end_object();
  list_.write(json.text() + "\n");
  list_.sync();
  entries_[file] = {made_of, hash};
  writer.commit();
}

}  // namespace mt
