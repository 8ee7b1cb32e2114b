#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/magic.h>
#include <sys/vfs.h>
#endif

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "base/temporary.h"
#include "base/threads.h"

namespace mt {

File File::open(const std::string& path, int flags) {
  if (path == "-") return {::dup(STDIN_FILENO), "stdin"};
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (descriptor < 0) fail_errno(path, "cannot open", Exit::no_input);
  File file(descriptor, path);
  struct stat status;
  if (::fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode))
    fail(Exit::no_input, path, ": is a directory, expected a file");
  return file;
}

File File::open_regular(const std::string& path) {
  File file = open(path, O_NONBLOCK);  // a pipe is refused, not waited for
  if (!file.is_regular()) fail(Exit::no_input, path, ": is a pipe or a device, expected a file");
  return file;
}

static File open_to_write(const std::string& path, const std::string& name, int flags) {
  const int descriptor = ::open(path.c_str(), O_CREAT | O_CLOEXEC | flags, 0666);
  if (descriptor < 0 && (errno == ENOENT || errno == ENOTDIR))
    fail(Exit::cannot_create, name, ": cannot create: no such folder");
  if (descriptor < 0) fail_errno(name, "cannot create", Exit::cannot_create);
  return {descriptor, name};
}

File File::create(const std::string& path, const std::string& called, bool keep) {
  if (path == "-") return {::dup(STDOUT_FILENO), "stdout"};
  return open_to_write(path, called.empty() ? path : called,
                       O_WRONLY | (keep ? O_APPEND : O_TRUNC));
}

// The open file that /dev/stdout, /dev/fd/3 or /proc/self/fd/3 are names of.
static std::optional<int> own_descriptor(const std::string& path) {
  std::error_code none;
  const std::filesystem::path link = std::filesystem::read_symlink(path, none);
  const std::filesystem::path name = link.string().starts_with("/proc/") ? link.string() : path;
  if (std::filesystem::canonical(name.parent_path(), none) != concat("/proc/", ::getpid(), "/fd"))
    return std::nullopt;
  const std::string digits = name.filename().string();
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

File File::create_stream(const std::string& path, const std::function<void()>& while_waiting) {
  int descriptor;
  if (const std::optional<int> open = own_descriptor(path)) {  // where it stands, and as it is
    if ((descriptor = ::dup(*open)) < 0) fail_errno(path, "cannot open", Exit::cannot_create);
    return {descriptor, path};
  }
  while ((descriptor = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0) {
    const int why = errno;
    struct stat status;
    const bool pipe = ::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode);
    errno = why;
    if (!(errno == ENXIO && pipe) && errno != EINTR)
      fail_errno(path, "cannot open", Exit::cannot_create);
    while_waiting();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  File file(descriptor, path);
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0 || ::fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK) < 0)
    fail_errno(path, "cannot open", Exit::io_error);
  return file;
}

File File::append(const std::string& path) {
  make_folder(parent_directory(path));
  File file = open_to_write(path, path, O_RDWR | O_APPEND);
  const std::uint64_t size = file.is_regular() ? file.size() : 0;
  if (size == 0) return file;
  std::byte last[1];  // a full disk may have cut what an earlier run wrote
  file.read_at(size - 1, last);
  if (last[0] != std::byte{'\n'}) file.write("\n");
  return file;
}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), name_(std::move(other.name_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(name_, other.name_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::size_t File::read(std::span<std::byte> into) {
  for (;;) {
    const ssize_t count = ::read(descriptor_, into.data(), into.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) fail_errno(name_, "cannot read", Exit::io_error);
  }
}

void File::read_at(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t count =
        ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      fail_errno(name_, "cannot read", Exit::io_error);
    }
    if (count == 0)
      fail(Exit::bad_data, name_, ": ends ", into.size(),
           " bytes before the end of a record at byte ", offset);
    into = into.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

void File::write(Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      fail_errno(name_, "cannot write", Exit::io_error);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void File::write_at(std::uint64_t offset, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      fail_errno(name_, "cannot write", Exit::io_error);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

std::uint64_t File::size() const {
  struct stat status;
  if (::fstat(descriptor_, &status) != 0) fail_errno(name_, "cannot stat", Exit::io_error);
  return static_cast<std::uint64_t>(status.st_size);
}

bool File::is_regular() const {
  struct stat status;
  return ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
}

void File::sync() {
  if (::fsync(descriptor_) != 0) fail_errno(name_, "cannot sync", Exit::io_error);
}

void File::write_back() const {
#if defined(__linux__)
  ::sync_file_range(descriptor_, 0, 0,
                    SYNC_FILE_RANGE_WRITE);  // a hint: what fails here fails again
#endif
}

bool File::reserve(std::uint64_t offset, std::uint64_t bytes) const {
#if defined(__linux__)
  struct statfs system;
  if (::fstatfs(descriptor_, &system) == 0 && system.f_type == TMPFS_MAGIC) return false;
  return ::fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                     static_cast<off_t>(bytes)) == 0;
#else
  return false;
#endif
}

void File::close() {
  if (::close(std::exchange(descriptor_, -1)) != 0)
    fail_errno(name_, "cannot close", Exit::io_error);
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const File file = File::open_regular(path);
  size_ = file.size();
  if (size_ == 0) return;  // mmap refuses empty files
  data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (data_ == MAP_FAILED) {
    data_ = nullptr;
    fail_errno(path, "cannot map", Exit::io_error);
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

bool MappedFile::holds(Bytes part) const {
  const std::less_equal<> before;
  return before(bytes().data(), part.data()) &&
         before(part.data() + part.size(), bytes().data() + bytes().size());
}

void MappedFile::forget(Bytes part) const {
  if (!holds(part)) return;
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t begin = static_cast<std::size_t>(part.data() - bytes().data());
  const std::size_t first = (begin + page - 1) / page * page;  // a page of others' bytes stays
  const std::size_t end = (begin + part.size()) / page * page;
  if (first < end) ::madvise(static_cast<std::byte*>(data_) + first, end - first, MADV_DONTNEED);
}

void allow_open_files(std::size_t count) {
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t needed = static_cast<rlim_t>(count) + 256;
  if (limit.rlim_cur >= needed) return;
  limit.rlim_cur = std::min(needed, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

static std::string content_of(File file) {
  std::string content;
  if (file.is_regular()) content.reserve(file.size());
  std::byte block[1 << 16];
  while (const std::size_t count = file.read(block))
    content.append(reinterpret_cast<const char*>(block), count);
  return content;
}

std::string read_file(const std::string& path) { return content_of(File::open(path)); }

std::string read_regular_file(const std::string& path) {
  return content_of(File::open_regular(path));
}

bool is_stream(const std::string& path) {
  struct stat status;
  if (own_descriptor(path)) return true;
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code none;
  if (std::filesystem::equivalent(a, b, none)) return true;
  const auto place = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, none), none);
  };
  return place(a) == place(b);
}

void refuse_inputs(std::span<const std::string> outputs, std::span<const std::string> inputs) {
  std::map<std::pair<dev_t, ino_t>, std::string> there;
  struct stat status;
  for (const std::string& output : outputs)
    if (::stat(output.c_str(), &status) == 0 && S_ISREG(status.st_mode))
      there.emplace(std::pair(status.st_dev, status.st_ino), output);
  if (there.empty()) return;
  for (const std::string& input : inputs) {
    if (input == "-" || ::stat(input.c_str(), &status) != 0) continue;
    const auto found = there.find({status.st_dev, status.st_ino});
    if (found != there.end())
      fail(Exit::usage, "output ", found->second, ": is the input ", input, "; expected another");
  }
}

// What commit() would put the file in the place of, though it is none.
static void refuse_other_than_file(const std::string& path) {
  std::error_code none;
  if (path == "-")
    fail(Exit::usage, "-: is written as a file, which stdout cannot be; expected a file's name");
  if (is_stream(path))
    fail(Exit::cannot_create, path, ": is a pipe or a device, expected a file or nothing");
  if (std::filesystem::is_directory(path, none))
    fail(Exit::cannot_create, path, ": is a folder, expected a file or nothing");
}

static void refuse_existing(const std::string& path) {
  std::error_code none;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, none)))
    fail(Exit::cannot_create, path, ": exists already; --force overwrites it");
}

// A file that no other process writes, empty; its name gets a number where one does: of another
// host or container, which has the number that ours has.
static File create_temporary(std::string& name, const std::string& called) {
  for (int number = 0;;) {
    const std::string path = number == 0 ? name : concat(name, ".", number);
    File file = open_to_write(path, called, O_WRONLY);
    if (::flock(file.descriptor(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      ++number;
      continue;
    }
    struct stat opened, named;
    if (::fstat(file.descriptor(), &opened) != 0) fail_errno(path, "cannot stat", Exit::io_error);
    if (::stat(path.c_str(), &named) != 0 || opened.st_ino != named.st_ino)
      continue;  // it was another's, and has got its name meanwhile
    if (::ftruncate(file.descriptor(), 0) != 0) fail_errno(path, "cannot be cut", Exit::io_error);
    name = path;
    return file;
  }
}

// One process goes on with what another has left.
static void lock_part(const File& file, const std::string& name) {
  const bool is_taken = ::flock(file.descriptor(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  struct stat opened, named;
  if (is_taken || ::fstat(file.descriptor(), &opened) != 0 || ::stat(name.c_str(), &named) != 0 ||
      opened.st_ino != named.st_ino)  // it has got its name meanwhile
    fail(Exit::cannot_create, name, ": another process is writing it");
}

AtomicFile::AtomicFile(const std::string& path, bool overwrite, bool resumable)
    : path_(path),
      temporary_(resumable ? part_path(path) : temporary_name_of_thread(path)),
      overwrite_(overwrite),
      resumable_(resumable),
      file_(-1, path) {
  refuse_other_than_file(path_);
  if (!overwrite_) refuse_existing(path_);
  sweep_temporaries(path_);
  file_ = resumable_ ? File::create(temporary_, path, true) : create_temporary(temporary_, path);
  if (resumable_) lock_part(file_, temporary_);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      overwrite_(other.overwrite_),
      resumable_(other.resumable_),
      file_(std::move(other.file_)) {}

AtomicFile::~AtomicFile() {
  if (!resumable_) discard();
}

void AtomicFile::sync() {
  if (is_open()) file_.sync();
}

void AtomicFile::set_aside() {
  sync();
  if (is_open()) file_.close();
}

void AtomicFile::discard() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
  file_ = File(-1, path_);
}

void AtomicFile::cut(std::uint64_t size) {
  if (file_.size() < size)
    fail(Exit::bad_data, temporary_, ": ", file_.size(), " bytes, expected ", size, " or more");
  if (::ftruncate(file_.descriptor(), static_cast<off_t>(size)) != 0)
    fail_errno(temporary_, "cannot be cut", Exit::io_error);
}

std::string part_path(const std::string& path) { return path + ".part"; }

void undo_commit(const std::string& path) {
  if (std::filesystem::exists(part_path(path)) || !std::filesystem::exists(path)) return;
  if (::rename(path.c_str(), part_path(path).c_str()) != 0)
    fail_errno(path, "cannot be renamed", Exit::cannot_create);
}

void AtomicFile::give_name() {
  if (!overwrite_) refuse_existing(path_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail_errno(path_, "cannot rename into place", Exit::cannot_create);
  temporary_.clear();
  if (is_open()) file_.close();  // and with it the lock, which is held until the name is taken
}

void AtomicFile::commit() {
  sync();
  give_name();
  sync_directory(parent_directory(path_));
}

void commit_together(std::span<AtomicFile* const> files) {
  parallel_for_ordered_errors(static_cast<std::int64_t>(files.size()),
                              [&](std::int64_t i) { files[static_cast<std::size_t>(i)]->sync(); });
  for (AtomicFile* const file : files) {
    if (file == files.back() && files.size() > 1) sync_directory(parent_directory(file->path()));
    file->give_name();
  }
  sync_directory(parent_directory(files.back()->path()));
}

void write_file_atomically(const std::string& path, std::string_view content, bool overwrite) {
  if (is_stream(path)) return File::create_stream(path).write(content);
  AtomicFile file(path, overwrite);
  file.write(content);
  file.commit();
}

void sync_directory(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_errno(path, "cannot open", Exit::io_error);
  File folder(descriptor, path);
  folder.sync();
}

std::uint64_t bytes_in(const std::string& directory) {
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    if (entry.is_regular_file()) bytes += entry.file_size();
  return bytes;
}

std::string parent_directory(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace mt
