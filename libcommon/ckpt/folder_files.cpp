#include "ckpt/folder_files.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file.h"

namespace mt {

namespace fs = std::filesystem;

static bool is_digit(char c) { return '0' <= c && c <= '9'; }

bool has_form(std::string_view name, std::string_view pattern) {
  std::size_t at = 0;
  for (std::size_t p = 0; p < pattern.size();) {
    if (pattern[p] != '#') {
      if (at == name.size() || name[at++] != pattern[p++]) return false;
      continue;
    }
    std::size_t least = 0, digits = 0;
    for (; p < pattern.size() && pattern[p] == '#'; ++p) ++least;
    for (; at < name.size() && is_digit(name[at]); ++at) ++digits;
    if (digits < least) return false;
  }
  return at == name.size();
}

static bool is_folder(const fs::path& path) {
  std::error_code none;
  return fs::symlink_status(path, none).type() == fs::file_type::directory;
}

// Calls file(name) for each file below a folder, and other(name) for each folder there with nothing
// in it, or that cannot be read.
template <class File, class Other>
static void walk(const std::string& folder, const std::string& prefix, const File& file,
                 const Other& other) {
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  if (!prefix.empty() && (error || entry == fs::directory_iterator()))
    return other(prefix.substr(0, prefix.size() - 1));
  if (error) fail(Exit::no_permission, folder, ": cannot list: ", error.message());
  for (; entry != fs::directory_iterator(); entry.increment(error)) {
    if (error) fail(Exit::io_error, folder, ": cannot list: ", error.message());
    const std::string name = prefix + entry->path().filename().string();
    if (is_folder(entry->path()))
      walk(entry->path(), name + "/", file, other);
    else
      file(name);
  }
}

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> names;
  walk(
      folder, "", [&](const std::string& name) { names.push_back(name); },
      [](const std::string&) {});
  std::sort(names.begin(), names.end());
  return names;
}

std::string first_of_others(const std::string& folder, const OwnFile& own) {
  std::set<std::string> names;
  walk(
      folder, "",
      [&](const std::string& name) {
        if (name != kSaveMark && !own(name)) names.insert(name);
      },
      [&](const std::string& name) { names.insert(name); });
  return names.empty() ? "" : *names.begin();
}

bool remove_own_files(const std::string& folder, const OwnFile& own) {
  std::set<std::string, std::greater<>> folders;  // the inner ones first
  for (const std::string& name : files_below(folder)) {
    if (name == kSaveMark || !own(name)) continue;
    ::unlink(concat(folder, "/", name).c_str());
    for (std::size_t at = name.rfind('/'); at != name.npos && at > 0; at = name.rfind('/', at - 1))
      folders.insert(name.substr(0, at));
  }
  for (const std::string& name : folders) ::rmdir(concat(folder, "/", name).c_str());
  ::unlink(concat(folder, "/", kSaveMark).c_str());  // the last, for it says whose the folder is
  return ::rmdir(folder.c_str()) == 0;
}

void check_files_can_be_replaced(const std::string& folder, const OwnFile& own) {
  for (const auto& entry : fs::directory_iterator(folder))
    if (is_folder(entry.path()) && own(entry.path().filename().string()))
      fail(Exit::cannot_create, entry.path().string(), ": is a folder, expected a file or nothing");
}

// --- Replacing ----------------------------------------------------------------------------------

namespace {

class Replacement {
 public:
  Replacement(const std::string& from, const std::string& to, const FolderFiles& files)
      : from_(from), to_(to), keys_(files.keys), come_(files_below(from)) {
    std::erase(come_, kSaveMark);
    const OwnFile own = files.own(to);
    for (const std::string& name : files_below(to))
      if (own(name)) go_.push_back(name);
  }

  void run() {
    check();
    for (auto key = keys_.rbegin(); key != keys_.rend(); ++key)
      if (contains(go_, *key)) remove(*key);
    sync_directory(to_);
    // One file takes another's place at once; of several an old one never stands beside a new one.
    for (const std::string& name : go_)
      if (!is_key(name) && (come_.size() > 1 || !contains(come_, name))) remove(name);
    for (const std::string& name : come_)
      if (!is_key(name)) put(name);
    for (const std::string& folder : folders_) sync_directory(folder);
    for (const std::string& name : keys_)
      if (contains(come_, name)) put(name);
    sync_directory(to_);
    for (const std::string& name : go_)
      if (const std::string folder = parent_directory(name); folder != ".")
        ::rmdir(concat(to_, "/", folder).c_str());  // which fails where something is left in it
  }

 private:
  static bool contains(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }
  bool is_key(const std::string& name) const { return contains(keys_, name); }
  std::string there(const std::string& name) const { return concat(to_, "/", name); }

  void check() const {
    for (const std::string& name : come_) {
      if (is_folder(there(name)))
        fail(Exit::cannot_create, there(name), ": is a folder, expected a file or nothing");
      const std::string folder = there(parent_directory(name));
      std::error_code none;
      if (fs::exists(fs::symlink_status(folder, none)) && !is_folder(folder) &&
          folder != there("."))
        fail(Exit::cannot_create, folder, ": is no folder, expected one or nothing");
    }
    // Whether files can be moved there at all: not where it is another file system's.
    const std::string probe = concat("/.tmp.", ::getpid());
    File::create(from_ + probe).close();
    if (::rename((from_ + probe).c_str(), (to_ + probe).c_str()) != 0) {
      const int why = errno;
      ::unlink((from_ + probe).c_str());
      errno = why;
      fail_errno(to_, "cannot move files there", Exit::cannot_create);
    }
    ::unlink((to_ + probe).c_str());
  }

  void remove(const std::string& name) const {
    if (::unlink(there(name).c_str()) != 0)
      fail_errno(there(name), "cannot be replaced", Exit::cannot_create);
  }

  void put(const std::string& name) {
    const std::string folder = there(parent_directory(name));
    std::error_code error;
    fs::create_directories(folder, error);  // what fails here fails again
    folders_.insert(folder);
    if (::rename(concat(from_, "/", name).c_str(), there(name).c_str()) != 0)
      fail_errno(there(name), "cannot rename into place", Exit::cannot_create);
  }

  const std::string &from_, &to_;
  const std::vector<std::string>& keys_;
  std::vector<std::string> come_, go_;
  std::set<std::string> folders_;  // that got files
};

}  // namespace

void replace_files(const std::string& from, const std::string& to, const FolderFiles& files) {
  Replacement(from, to, files).run();
  std::error_code error;
  fs::remove_all(from, error);  // its folders, which are empty now
}

}  // namespace mt
