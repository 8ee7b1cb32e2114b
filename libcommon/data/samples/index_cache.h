// IndexCache: arrays that take long to make and follow from a text alone (the hash of a token
// file's index, a seed, lengths), kept in files which later runs map.
//
//   FOLDER/<XXH3-128 of the text>.index, little-endian:
//     0   8 bytes  "MTINDEX1"              8   u64  bytes of the text, then the text
//     ..  each array, from the next multiple of 64 bytes on
//     ..  32 bytes: XXH3-128 of all before, in hexadecimal digits
//
// Since the text names all that the arrays depend on, a file is never stale; it says what it is
// for, so that a file of other data under its name is refused (Exit::bad_config).  A damaged one
// is made again, with a warning; one that was found whole is not read again until it changes
// (known_files.h).  Files are renamed into place when whole, so any number of processes may share a
// folder.  Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "data/files/known_files.h"

namespace mt {

struct ArrayShape {
  std::size_t element_bytes = 0;
  std::int64_t count = 0;
};

// Takes the elements of all arrays, one array after another.
class IndexWriter {
 public:
  virtual ~IndexWriter() = default;
  template <class T>
  void put(T value) {
    write(std::as_bytes(std::span<const T, 1>(&value, 1)));
  }
  template <class T>
  void put_all(std::span<const T> values) {
    write(std::as_bytes(values));
  }
  virtual void write(Bytes bytes) = 0;
  virtual void next_array() = 0;  // the one before is complete
};

// What a cache is asked for: `make` puts the elements of all arrays, of those shapes.
struct IndexContent {
  std::string text;
  std::vector<ArrayShape> arrays;
  std::function<void(IndexWriter&)> make;
};

// The arrays, mapped or in memory.  Movable; spans live as long as it does.
class IndexArrays {
 public:
  IndexArrays() = default;
  template <class T>
  std::span<const T> get(std::size_t array) const {
    const Bytes bytes = arrays_[array];
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  bool made() const { return made_; }  // now, not found in a file

 private:
  friend class IndexCache;
  std::unique_ptr<MappedFile> file_;  // one of the two
  std::unique_ptr<std::byte[]> memory_;
  std::vector<Bytes> arrays_;
  bool made_ = false;
};

class IndexCache {
 public:
  IndexCache() = default;  // none: arrays are made in memory
  // `log` hears of damaged files.  The folder is made when the first index is.
  IndexCache(std::string folder, Log log)
      : folder_(std::move(folder)), log_(std::move(log)), known_(folder_) {}

  bool kept() const { return !folder_.empty(); }
  // This cache, but one that calls `report` with the numbers of bytes of arrays that it has put or
  // found, from the thread that does; what that throws goes to whoever asked.
  using Report = std::function<void(std::uint64_t bytes)>;
  IndexCache reporting(Report report) const;

  IndexArrays get(const IndexContent& content) const;
  std::string path(const std::string& text) const;

 private:
  std::optional<IndexArrays> load(const IndexContent& content) const;
  void store(const IndexContent& content) const;
  IndexArrays make_in_memory(const IndexContent& content) const;

  std::string folder_;
  Log log_;
  KnownFiles known_;  // that are whole
  Report report_ = [](std::uint64_t) {};
};

}  // namespace mt
