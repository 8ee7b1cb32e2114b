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

// While shares are made nobody makes all.
static void refuse_shares(const std::string& folder) {
  constexpr std::string_view kLock = ".mt-lock-";
  std::vector<std::string> parts;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kLock)) parts.push_back(name.substr(kLock.size() - 1));
  }
  for (const std::string& part : parts) const SaveLock share(folder, part);
}

StageFiles::StageFiles(const std::string& folder, bool force, const StageShare& share)
    : folder_(folder),
      force_(force),
      list_(File::append(list_path(folder, share))),  // makes the folder
      lock_(folder, share.is_whole() ? "" : concat("-", share.index, "-of-", share.count)) {
  if (share.is_whole()) refuse_shares(folder);
  lists_ = StageLists(folder);
}

StageLists::StageLists(const std::string& folder) {
  if (!fs::is_directory(folder)) return;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("manifest") && name.ends_with(".jsonl")) read(entry.path().string());
  }
}

void StageLists::read(const std::string& list) {
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
      add(std::string(file), std::string(made_of), std::string(hash));
  }
}

std::set<std::string> StageLists::made_of(const std::string& file, const std::string& hash) const {
  std::set<std::string> found;
  if (const auto entry = entries_.find(file); entry != entries_.end())
    for (const auto& [of, content] : entry->second)
      if (of == hash) found.insert(content);
  return found;
}

bool StageLists::was_made_of(const std::string& file, const std::string& made_of) const {
  const auto entry = entries_.find(file);
  return entry != entries_.end() &&
         std::ranges::any_of(entry->second, [&](const auto& of) { return of.second == made_of; });
}

bool StageFiles::has(const std::string& file, const std::string& made_of, const Log& log) {
  if (!fs::exists(path(file))) return false;
  if (!lists_.has(file)) {
    if (force_) return false;
    fail(Exit::cannot_create, path(file), ": exists, and ", list_path(folder_, {}),
         " does not list it: made by another program; --force replaces it");
  }
  const std::string hash = hash_file(path(file));
  const std::set<std::string> content = lists_.made_of(file, hash);
  if (content.contains(made_of)) {
    hashes_[file] = hash;
    return true;
  }
  if (!content.empty() || !lists_.was_made_of(file, made_of)) {
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
  lists_.add(file, made_of, hash);
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
