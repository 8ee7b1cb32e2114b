#include "base/lfs_pointer.h"

#include "base/error.h"

namespace mt {

void refuse_lfs_pointer(std::string_view start, const std::string& name) {
  if (start.starts_with("version https://git-lfs."))
    fail(Exit::bad_data, name, ": is a pointer of Git LFS; git lfs pull fetches the file itself");
}

}  // namespace mt
