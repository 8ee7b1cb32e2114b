// Tar files of POSIX (ustar and pax) and GNU, not packed: of each member a header of 512 bytes and
// its content, filled up with zeroes to a multiple of that; 512 zeroes end them.
//   0 name[100]  100 mode[8]  124 size[12]  148 checksum[8]  156 type  257 magic[8]  345
//   prefix[155]
// Numbers are octal digits, or GNU's 0x80 and 8 bytes at the end.  Before a header there may be one
// of a pax record (type x: "LEN path=NAME\n") or of a long name (GNU's L).  Offsets are those that
// Python's tarfile has.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.h"

namespace mt {

struct TarMember {
  std::string name;
  std::uint64_t header = 0;  // where the first header of it begins
  std::uint64_t data = 0, size = 0;
  bool is_regular = false;  // no folder, link or device
};

class TarReader {
 public:
  // `file` must outlive it.
  explicit TarReader(const MappedFile& file) : file_(file) {}

  // False at the end.  Throws Exit::bad_data, with the byte, for what is damaged or cut off.
  bool next(TarMember& member);
  std::uint64_t offset() const { return at_; }  // behind the last member that was read

 private:
  struct Named {  // by the headers before a member's own
    std::string name;
    std::string size;
  };
  std::string_view block() const;
  std::string_view content(std::uint64_t size) const;
  void take_record(std::string_view record, Named& named) const;

  const MappedFile& file_;
  std::uint64_t at_ = 0;
};

// Regular members of names of at most 100 bytes, without times, owners and groups, so that the same
// content is the same file.
class TarWriter {
 public:
  explicit TarWriter(AtomicFile& file) : file_(file) {}
  // Returns where its content begins.
  std::uint64_t add(const std::string& name, std::string_view content);
  void finish();  // writes the end
  std::uint64_t offset() const { return at_; }

 private:
  void write(std::string_view bytes);

  AtomicFile& file_;
  std::uint64_t at_ = 0;
};

}  // namespace mt
