// A file in memory, with a path to open it by.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "base/error.h"
#include "base/file.h"

namespace mt {

class FileOf {
 public:
  explicit FileOf(Bytes content) : file_(::memfd_create("fuzz", MFD_CLOEXEC), "fuzz") {
    file_.write(content);
  }
  std::string path() const { return concat("/proc/self/fd/", file_.descriptor()); }

 private:
  File file_;
};

}  // namespace mt
