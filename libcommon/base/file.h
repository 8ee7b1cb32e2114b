// Files: descriptors that close themselves, read-only mappings, and outputs that appear whole or
// not at all (written beside their name, flushed to the disk, then renamed).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace mt {

using Bytes = std::span<const std::byte>;

inline Bytes as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }
inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// An open file descriptor and the name it is called by in errors.  Movable, closed when destroyed.
class File {
 public:
  // For reading; "-" is stdin.  `flags`: more of open(2)'s.
  static File open(const std::string& path, int flags = 0);
  // For reading; Exit::no_input at once if it is a pipe or a device.
  static File open_regular(const std::string& path);
  // For writing, truncated unless `keep` asks for writes at its end; "-" is stdout.  `called`: its
  // name in errors, if not the path.
  static File create(const std::string& path, const std::string& called = {}, bool keep = false);
  // For writing to a stream.  `while_waiting` runs several times a second while nobody reads from a
  // named pipe.
  static File create_stream(
      const std::string& path, const std::function<void()>& while_waiting = [] {});
  // For lines at its end; made if need be, with its folder.  A last line that was cut is ended.
  static File append(const std::string& path);
  File(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  std::size_t read(std::span<std::byte> into);                          // 0 at the end
  void read_at(std::uint64_t offset, std::span<std::byte> into) const;  // all of `into`, or throws
  void write(Bytes bytes);
  void write(std::string_view text) { write(as_bytes(text)); }
  void write_at(std::uint64_t offset, Bytes bytes);  // of a regular file; from several threads
  std::uint64_t size() const;
  bool is_regular() const;  // no pipe, terminal or other device
  void sync();              // to the disk
  void write_back() const;  // begins to take to the disk what was written, without waiting for it
  // Asks the disk for room of [offset, offset + bytes), which makes writing there cheaper and
  // leaves the size as it is: a hint.  False where there is none: in memory it would cost more.
  bool reserve(std::uint64_t offset, std::uint64_t bytes) const;
  void close();  // reports what close() reports; no descriptor remains
  int descriptor() const { return descriptor_; }
  const std::string& name() const { return name_; }

 private:
  int descriptor_ = -1;
  std::string name_;
};

// A regular file's bytes, mapped read-only.  An empty file is an empty span.  Reading what somebody
// has cut off meanwhile ends the program: see report_lost_mappings().
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();
  Bytes bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  const std::string& path() const { return path_; }
  bool holds(Bytes part) const;  // are these bytes of this file, and not a copy elsewhere?
  // Takes the pages of a part out of this process's memory, until they are read again: for a large
  // file that is read once.  Bytes that are not of this file are left alone.
  void forget(Bytes part) const;

 private:
  std::string path_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// From now on a mapped byte that its file or the disk no longer gives ends the program with one
// line that names the file, and Exit::io_error, instead of SIGBUS.  run_command() calls it.
void report_lost_mappings();

// Raises how many files and connections this process may have open at once, 1024 often, to so many
// and 256 more, as far as the system lets it.
void allow_open_files(std::size_t count);

std::string read_file(const std::string& path);
// Reads what must be a regular file: one of a model, which is read more than once.
std::string read_regular_file(const std::string& path);

// Whether a pipe, a device or a name of an open file (/dev/stdout) is there, which is written to as
// it is and never replaced.
bool is_stream(const std::string& path);

// Whether both names lead to one file, which need not be there yet.
bool is_same_file(const std::string& a, const std::string& b);

// Exit::usage, with both names, if one of `outputs` is one of `inputs`, of which "-" is stdin and
// no file, and "" none.
void refuse_inputs(std::span<const std::string> outputs, std::span<const std::string> inputs);

// A file that appears under its name only when commit() returns: written as PATH.tmp.PID (by other
// threads than the first PATH.tmp.PID.TID), synced, renamed, its folder synced.  Destroyed before
// commit(), it leaves nothing behind; what a dead process left is swept (base/temporary.h).
// Without `overwrite` an existing file is refused, at once and again at commit(); "-", a stream or
// a folder is in any case.  A resumable one is written as PATH.part, stays there when it is
// destroyed, and is gone on with by the next; one process has it at a time.
class AtomicFile {
 public:
  AtomicFile(const std::string& path, bool overwrite, bool resumable = false);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();
  void write(Bytes bytes) { file_.write(bytes); }
  void write(std::string_view text) { file_.write(text); }
  void sync();
  void write_back() const { file_.write_back(); }
  bool reserve(std::uint64_t offset, std::uint64_t bytes) const {
    return file_.reserve(offset, bytes);
  }
  // Keeps the first `size` bytes, and no room behind them; throws Exit::bad_data where there are
  // fewer.
  void cut(std::uint64_t size);
  void set_aside();  // it is complete: synced and closed, and only to be committed or discarded
  void commit();
  void discard();                                       // removes it: it never gets its name
  bool has_name() const { return temporary_.empty(); }  // also if commit() failed to sync it
  const std::string& path() const { return path_; }
  const std::string& temporary_path() const { return temporary_; }

 private:
  friend void commit_together(std::span<AtomicFile* const> files);
  bool is_open() const { return file_.descriptor() >= 0; }
  void give_name();

  std::string path_, temporary_;  // temporary_ is empty once there is nothing to remove
  bool overwrite_, resumable_;
  File file_;
};

// Some files of one folder: they are synced side by side and then get their names in this order,
// the last one when those before it have theirs, so whoever finds it finds all.
void commit_together(std::span<AtomicFile* const> files);

// The whole of a small file at once, atomically; into a stream as it is.
void write_file_atomically(const std::string& path, std::string_view content, bool overwrite);

std::string part_path(const std::string& path);  // of a resumable AtomicFile
// Takes the name away again that commit() gave one, if it did: where a part is, PATH is an older
// file.
void undo_commit(const std::string& path);

void sync_directory(const std::string& path);
std::uint64_t bytes_in(const std::string& directory);   // of the files in it
std::string parent_directory(const std::string& path);  // "." for a bare name

}  // namespace mt
