// HashedReads: checks the files of a checkpoint against their hashes while they are read for
// something else, so that each comes from the disk once.  What was read may be used as it comes,
// but nothing that was made of it may be kept before finish().
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "ckpt/hashed_file.h"

namespace mt {

class HashedReads {
 public:
  HashedReads(const std::string& folder, const std::vector<FileHash>& files);

  // Before bytes before `end` of a file are read: hashes those that were not.  From several
  // threads.
  void reach(const std::string& name, std::uint64_t end);
  // Hashes the rest of all files.  A difference is Exit::bad_data, as of verify_file().
  void finish();

 private:
  struct Read {
    Read(const std::string& folder, const FileHash& file);
    FileHash expected;
    MappedFile mapped;
    std::mutex hashing;
    Hasher hasher;
    std::uint64_t hashed = 0;  // bytes

    void reach(std::uint64_t end);
  };
  std::string folder_;
  std::deque<Read> reads_;
};

}  // namespace mt
