#include "ckpt/folder_save.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/temporary.h"

namespace mt {

namespace fs = std::filesystem;

// --- What dead processes left -------------------------------------------------------------------

static std::string mark_of(const std::string& folder) { return concat(folder, "/", kSaveMark); }

static void mark(const std::string& folder) { File::create(mark_of(folder)).close(); }

// A process may die before it marks a folder that it has just made.
static bool is_marked(const fs::path& folder) {
  std::error_code error;
  return fs::exists(mark_of(folder), error) || fs::is_empty(folder, error);
}

static void restore_or_remove(const fs::path& set_aside, const fs::path& original) {
  std::error_code error;
  if (fs::exists(original)) {
    fs::remove_all(set_aside, error);
    return;
  }
  fs::rename(set_aside, original, error);
  if (!error) fs::remove(mark_of(original), error);
}

void remove_leftovers(const std::string& parent,
                      const std::function<bool(const std::string& stem)>& ours) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end;
       entry.increment(error))
    paths.push_back(entry->path());
  for (const fs::path& path : paths) {
    const std::string name = path.filename().string();
    if (!fs::is_directory(fs::symlink_status(path, error)) || !is_marked(path)) continue;
    if (const Temporary found = parse_temporary(name); found.writer > 0) {
      if (ours(found.stem) && !is_locked(path, found.writer)) fs::remove_all(path, error);
    } else if (name.ends_with(kReplaced)) {
      const std::string stem = name.substr(0, name.rfind(kReplaced));
      if (ours(stem)) restore_or_remove(path, path.parent_path() / stem);
    }
  }
}

void delete_folder(const std::string& path, const FolderFiles& files) {
  const OwnFile own = files.own(path);
  if (!first_of_others(path, own).empty()) return;
  const std::string aside = temporary_name(path);
  try {
    mark(path);
  } catch (const Error&) {  // on a full disk it is only not known as left over, should we die
  }
  if (::rename(path.c_str(), aside.c_str()) != 0) fail_errno(path, "cannot rename", Exit::io_error);
  if (!remove_own_files(aside, own)) fail_errno(aside, "cannot delete", Exit::io_error);
}

// --- Publishing ---------------------------------------------------------------------------------

static void rename_or_fail(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    fail_errno(to, "cannot rename into place", Exit::cannot_create);
}

// What others put into an older folder while it was replaced stays under its name.
static void remove_older(const std::string& older, const std::string& newer, const OwnFile& own) {
  std::error_code error;
  if (fs::is_symlink(older)) {  // what it leads to is left alone
    fs::remove(older, error);
    return;
  }
  if (remove_own_files(older, own)) return;
  for (const auto& entry : fs::directory_iterator(older, error))
    ::renameat2(AT_FDCWD, entry.path().c_str(), AT_FDCWD,
                concat(newer, "/", entry.path().filename().string()).c_str(), RENAME_NOREPLACE);
  ::rmdir(older.c_str());  // if that fails, it is left over
}

void move_into_place(const std::string& from, const std::string& to, const FolderFiles& files,
                     bool may_exchange) {
  const std::string parent = parent_directory(to), aside = to + kReplaced;
  if (!fs::exists(fs::symlink_status(to))) {
    rename_or_fail(from, to);
    return sync_directory(parent);
  }
  const OwnFile own = files.own(to);
  if (!fs::is_symlink(to)) mark(to);
  if (may_exchange &&
      ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    sync_directory(parent);
    return remove_older(from, to, own);
  }
  try {
    rename_or_fail(to, aside);
  } catch (...) {
    if (!fs::is_symlink(to)) ::unlink(mark_of(to).c_str());
    throw;
  }
  rename_or_fail(from, to);
  sync_directory(parent);
  remove_older(aside, to, own);
}

void NewFolders::make(const std::string& path) {
  std::error_code error;
  std::vector<std::string> missing;
  for (std::string at = path; !fs::exists(at, error); at = parent_directory(at))
    missing.push_back(at);
  for (; !missing.empty(); missing.pop_back()) {
    const std::string& folder = missing.back();
    fs::create_directory(folder, error);
    if (error) fail(Exit::cannot_create, folder, ": cannot create: ", error.message());
    made_.push_back(folder);
    sync_directory(parent_directory(folder));
  }
}

NewFolders::~NewFolders() {
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) ::rmdir(folder->c_str());
}

// What publish() would put the folder in the place of, though it is none.
static void refuse_other_than_folder(const std::string& path) {
  std::error_code none;
  const fs::file_status found = fs::status(path, none);
  if (fs::exists(found) && !fs::is_directory(found))
    fail(Exit::cannot_create, path, ": is a file, expected a folder or nothing");
}

FolderSave::FolderSave(const std::string& path, FolderFiles files, bool replaces)
    : path_(path), files_(std::move(files)), replaces_(replaces) {
  const std::string parent = parent_directory(path);
  parents_.make(parent);
  const std::string name = fs::path(path).filename().string();
  remove_leftovers(parent, [&](const std::string& stem) { return stem == name; });
  refuse_other_than_folder(path);
  if (replaces_ && fs::is_directory(path)) check_files_can_be_replaced(path, files_.own(path));
  const std::string folder = temporary_name(path);
  if (::mkdir(folder.c_str(), 0777) != 0) fail_errno(path, "cannot create", Exit::cannot_create);
  folder_ = folder;
  try {
    mark(folder_);
  } catch (...) {
    ::rmdir(folder.c_str());
    throw;
  }
  lock_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ >= 0) ::flock(lock_, LOCK_EX | LOCK_NB);  // see is_locked() for where this fails
}

FolderSave::~FolderSave() {
  std::error_code error;
  if (!published_) fs::remove_all(folder_, error);
  if (lock_ >= 0) ::close(lock_);
}

void FolderSave::replace() {
  refuse_other_than_folder(path_);
  const bool is_folder = fs::is_directory(fs::symlink_status(path_));
  if (is_folder && !first_of_others(path_, files_.own(path_)).empty())
    replace_files(folder_, path_, files_);
  else
    move_into_place(folder_, path_, files_, true);
}

void FolderSave::publish(const std::function<void()>& then) {
  sync_directory(folder_);
  if (replaces_)
    replace();
  else
    rename_or_fail(folder_, path_);
  published_ = true;
  sync_directory(parent_directory(path_));
  then();
  ::unlink(mark_of(path_).c_str());
  sync_directory(path_);
}

}  // namespace mt
