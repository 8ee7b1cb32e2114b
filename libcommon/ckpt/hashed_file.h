// A file that is written from front to back, hashed on the way, and synced to the disk at the end.
#pragma once

#include <string>

#include "base/file.h"
#include "base/hash.h"

namespace mt {

// What is known of a file without opening it.
struct FileHash {
  std::string name;  // below its folder
  std::uint64_t bytes = 0;
  std::string hash;  // base/hash.h
};

// Removed again when destroyed before close().
class HashedFile {
 public:
  // `gathered`: bytes of small writes that become one.
  HashedFile(const std::string& folder, const std::string& name, std::size_t gathered = 256 << 10);
  HashedFile(const HashedFile&) = delete;
  ~HashedFile();
  void write(Bytes bytes);
  std::uint64_t written() const { return record_.bytes; }
  FileHash close();

 private:
  void put(Bytes bytes);

  File file_;
  Hasher hasher_;
  std::size_t most_gathered_;
  std::string gathered_;     // small writes, to be made one
  std::uint64_t dirty_ = 0;  // bytes that the disk was not given yet
  FileHash record_;
  bool closed_ = false;
};

}  // namespace mt
