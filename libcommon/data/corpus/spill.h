// Spill: bytes that are written one after another and read back once, kept on the disk and not in
// memory.  Never gets a name of its own: it goes with the object, unless it is resumable.  Not
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"

namespace mt {

class Spill {
 public:
  Spill(const std::string& path, bool resumable) : file_(path, true, resumable) {}
  Spill(Spill&&) noexcept = default;

  void write(Bytes bytes);
  void flush();                   // all is in the file
  void sync() { file_.sync(); }   // what was flushed is on the disk
  void cut(std::uint64_t bytes);  // of a resumed one: these remain
  // Calls body(bytes) for all there is, in pieces of whole elements of up to 64 bytes.
  void replay(const std::function<void(Bytes)>& body);
  void discard();  // nothing remains

 private:
  AtomicFile file_;
  std::vector<std::byte> buffer_;
};

}  // namespace mt
