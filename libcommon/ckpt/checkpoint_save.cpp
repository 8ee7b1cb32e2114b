#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "ckpt/checkpoint_manifest.h"
#include "ckpt/megatron_checkpoint.h"

namespace mt {

namespace fs = std::filesystem;

constexpr std::string_view kTemporary = ".tmp.";
// The form that core_v0.12 writes; it refuses other keys.
constexpr const char* kMetadataJson =
    R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, )"
    R"("common_backend": "torch", "common_backend_version": 1})";

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

static void remove_leftovers(const std::string& save_folder) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::directory_iterator entry(save_folder, error), end; !error && entry != end;
       entry.increment(error))
    paths.push_back(entry->path());
  for (const fs::path& path : paths) {
    const std::string name = path.filename().string();
    const pid_t writer = writer_of(name);
    if (writer > 0 && name.starts_with("iter_")) {
      if (!is_in_use(path, writer)) fs::remove_all(path, error);
    } else if (writer > 0 && name.starts_with(kTracker)) {
      if (!is_running(writer)) fs::remove(path, error);
    } else if (name.starts_with("iter_") && name.ends_with(kReplaced)) {
      const fs::path original = path.parent_path() / name.substr(0, name.rfind(kReplaced));
      if (fs::exists(original))
        fs::remove_all(path, error);
      else
        fs::rename(path, original, error);
    }
  }
}

void delete_checkpoint(const std::string& save_folder, std::int64_t iteration) {
  const std::string folder = iteration_folder(save_folder, iteration);
  if (fs::is_symlink(folder)) return;
  const std::string aside = concat(folder, kTemporary, ::getpid());
  if (::rename(folder.c_str(), aside.c_str()) != 0)
    fail_errno(folder, "cannot rename", Exit::io_error);
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

CheckpointSave::CheckpointSave(const std::string& save_folder, std::int64_t iteration)
    : save_folder_(save_folder), iteration_(iteration) {
  if (iteration <= 0) fail(Exit::internal, "a checkpoint of iteration ", iteration);
  std::error_code error;
  fs::create_directories(save_folder, error);
  if (error) fail(Exit::cannot_create, save_folder, ": cannot create: ", error.message());
  remove_leftovers(save_folder);
  const std::string folder =
      concat(iteration_folder(save_folder, iteration), kTemporary, ::getpid());
  if (::mkdir(folder.c_str(), 0777) != 0) fail_errno(folder, "cannot create", Exit::cannot_create);
  folder_ = folder;
  lock_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ >= 0) ::flock(lock_, LOCK_EX | LOCK_NB);  // see is_in_use() for where this fails
}

CheckpointSave::~CheckpointSave() {
  std::error_code error;
  if (!published_) fs::remove_all(folder_, error);
  if (lock_ >= 0) ::close(lock_);
}

// Another host's ranks may have written to a folder of the same name that is not this one.
static void check_present(const std::string& folder, const FileHash& file) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(folder + "/" + file.name, error);
  if (error || size != file.bytes)
    fail(Exit::io_error, folder, "/", file.name,
         ": not there as its rank wrote it: is the folder on a file system that all ranks share?");
}

static FileHash write_small(const std::string& folder, const std::string& name,
                            std::string_view content) {
  HashedFile file(folder, name);
  file.write(as_bytes(content));
  return file.close();
}

void CheckpointSave::publish(const Content& content) {
  if (!content.common.is(PyValue::Kind::dict)) fail(Exit::internal, "common state is no dict");
  CheckpointManifest manifest{iteration_, {}, content.manifest_extra};
  for (const WrittenFile& file : content.files) {
    check_present(folder_, file);
    manifest.files.push_back(file);
  }
  HashedFile common(folder_, "common.pt");
  common_writer_.write(content.common, "common", [&](Bytes bytes) { common.write(bytes); });
  manifest.files.push_back(common.close());
  manifest.files.push_back(
      write_dist_metadata(folder_, content.files, {.mcore_data = content.mcore_data}));
  manifest.files.push_back(write_small(folder_, "metadata.json", kMetadataJson));
  write_small(folder_, kManifestName, encode_checkpoint_manifest(manifest));
  sync_directory(folder_);
  move_into_place(folder_, iteration_folder(save_folder_, iteration_), true);
  published_ = true;
  write_file_atomically(save_folder_ + "/" + kTracker, std::to_string(iteration_), true);
}

}  // namespace mt
