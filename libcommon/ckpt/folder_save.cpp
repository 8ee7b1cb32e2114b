#include "ckpt/folder_save.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace mt {

namespace fs = std::filesystem;

constexpr std::string_view kTemporary = ".tmp.";

// --- What dead processes left -------------------------------------------------------------------

// The process that wrote PREFIX.tmp.PID; 0 if the name is of another kind.
static pid_t writer_of(const std::string& name) {
  const std::size_t at = name.rfind(kTemporary);
  if (at == std::string::npos) return 0;
  const char* const end = name.data() + name.size();
  pid_t pid = 0;
  const auto [stop, error] = std::from_chars(name.data() + at + kTemporary.size(), end, pid);
  return error == std::errc() && stop == end ? pid : 0;
}

static bool is_running(pid_t pid) { return ::kill(pid, 0) == 0 || errno != ESRCH; }

// A save holds a lock on its folder while it lives, which tells it from an earlier process of the
// same number.  Where folders cannot be locked (some network file systems), the number must do.
static bool is_in_use(const std::string& folder, pid_t pid) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return is_running(pid);
  const bool locked = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0;
  const bool unknown = locked && errno != EWOULDBLOCK;
  ::close(descriptor);
  return unknown ? is_running(pid) : locked;
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
    if (const pid_t writer = writer_of(name); writer > 0) {
      if (!ours(name.substr(0, name.rfind(kTemporary)))) continue;
      const bool used =
          fs::is_directory(path, error) ? is_in_use(path, writer) : is_running(writer);
      if (!used) fs::remove_all(path, error);
    } else if (name.ends_with(kReplaced) && ours(name.substr(0, name.rfind(kReplaced)))) {
      const fs::path original = path.parent_path() / name.substr(0, name.rfind(kReplaced));
      if (fs::exists(original))
        fs::remove_all(path, error);
      else
        fs::rename(path, original, error);
    }
  }
}

void delete_folder(const std::string& path) {
  const std::string aside = concat(path, kTemporary, ::getpid());
  if (::rename(path.c_str(), aside.c_str()) != 0) fail_errno(path, "cannot rename", Exit::io_error);
  std::error_code error;
  fs::remove_all(aside, error);
  errno = error.value();
  if (error) fail_errno(aside, "cannot delete", Exit::io_error);
}

// --- Publishing ---------------------------------------------------------------------------------

static void rename_or_fail(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    fail_errno(to, "cannot rename into place", Exit::cannot_create);
}

void move_into_place(const std::string& from, const std::string& to, bool may_exchange) {
  const std::string parent = parent_directory(to), aside = to + kReplaced;
  if (!fs::exists(to)) {
    rename_or_fail(from, to);
    return sync_directory(parent);
  }
  std::error_code error;
  if (may_exchange &&
      ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    sync_directory(parent);
    fs::remove_all(from, error);  // the old one; if that fails, it is left over
    return;
  }
  rename_or_fail(to, aside);
  rename_or_fail(from, to);
  sync_directory(parent);
  fs::remove_all(aside, error);
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

FolderSave::FolderSave(const std::string& path, bool replaces) : path_(path), replaces_(replaces) {
  const std::string parent = parent_directory(path);
  parents_.make(parent);
  const std::string name = fs::path(path).filename().string();
  remove_leftovers(parent, [&](const std::string& stem) { return stem == name; });
  const std::string folder = concat(path, kTemporary, ::getpid());
  if (::mkdir(folder.c_str(), 0777) != 0) fail_errno(folder, "cannot create", Exit::cannot_create);
  folder_ = folder;
  lock_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ >= 0) ::flock(lock_, LOCK_EX | LOCK_NB);  // see is_in_use() for where this fails
}

FolderSave::~FolderSave() {
  std::error_code error;
  if (!published_) fs::remove_all(folder_, error);
  if (lock_ >= 0) ::close(lock_);
}

void FolderSave::publish() {
  sync_directory(folder_);
  if (replaces_) {
    move_into_place(folder_, path_, true);
  } else {
    rename_or_fail(folder_, path_);
    sync_directory(parent_directory(path_));
  }
  published_ = true;
}

}  // namespace mt
