#include "retro/stage_files.h"

#include <simdjson.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"

namespace mt {

namespace fs = std::filesystem;

static std::string list_path(const std::string& folder, const StageShare& share) {
  return share.is_whole()
             ? folder + "/manifest.jsonl"
             : concat(folder, "/manifest-", share.index, "-of-", share.count, ".jsonl");
}

StageFiles::StageFiles(const std::string& folder, bool force, const StageShare& share)
    : folder_(folder),
      force_(force),
      list_(File::append(list_path(folder, share))),  // makes the folder
      lock_(std::make_unique<SaveLock>(
          folder, share.is_whole() ? "" : concat("-", share.index, "-of-", share.count))) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("manifest") && name.ends_with(".jsonl")) read(entry.path().string());
  }
}

void StageFiles::read(const std::string& list) {
  const std::string text = read_regular_file(list);
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
      entries_[std::string(file)][std::string(made_of)] = hash;
  }
}

bool StageFiles::has(const std::string& file, const std::string& made_of, const Log& log) {
  if (!fs::exists(path(file))) return false;
  const auto entry = entries_.find(file);
  if (entry == entries_.end()) {
    if (force_) return false;
    fail(Exit::cannot_create, path(file), ": exists, and ", list_path(folder_, {}),
         " does not list it: made by another program; --force replaces it");
  }
  const std::string hash = hash_file(path(file));
  const auto known = entry->second.find(made_of);
  const bool is_other = std::ranges::any_of(entry->second, [&](const auto& made) {
    return made.first != made_of && made.second == hash;
  });
  if (known != entry->second.end() && known->second == hash) {
    hashes_[file] = hash;
    return true;
  }
  if (known == entry->second.end() || is_other) {
    if (force_) return false;
    fail(Exit::bad_config, path(file),
         ": was made of other token files, by other tokenizers or with other settings; --force "
         "makes it anew");
  }
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

const std::string& StageFiles::hash(const std::string& file) const { return hashes_.at(file); }

void StageFiles::note(const std::string& file, const std::string& made_of,
                      const std::string& hash) {
  JsonWriter json;
  json.begin_object()
      .member("file", file)
      .member("made_of", made_of)
      .member("hash", hash)
      .end_object();
  list_.write(json.text() + "\n");
  list_.sync();
  entries_[file][made_of] = hash;
  hashes_[file] = hash;
}

void StageFiles::commit(Hdf5Writer& writer, const std::string& file, const std::string& made_of) {
  note(file, made_of, writer.finish());
  writer.commit();
}

void StageFiles::commit(AtomicFile& written, const std::string& hash, const std::string& file,
                        const std::string& made_of) {
  note(file, made_of, hash);
  written.commit();
}

void StageFiles::remove(const std::string& folder) { fs::remove_all(path(folder)); }

}  // namespace mt
