#include "base/lfs_pointer.h"

#include "base/error.h"

namespace mt {

bool is_lfs_pointer(std::string_view start) {
  return start.starts_with("version https://git-lfs.");
}

void refuse_lfs_pointer(std::string_view start, const std::string& name) {
  if (is_lfs_pointer(start)) fail(Exit::bad_data, name, ": ", kIsLfsPointer);
}

}  // namespace mt
