#include "base/folder.h"

#include <cerrno>
#include <filesystem>

#include "base/error.h"

namespace mt {

bool make_folder(const std::string& path) {
  std::error_code error, none;
  const bool made = std::filesystem::create_directories(path, error);
  if (!error) return made;
  if (std::filesystem::exists(path, none) && !std::filesystem::is_directory(path, none))
    fail(Exit::cannot_create, path, ": is a file, expected a folder or nothing");
  errno = error.value();
  fail_errno(path, "cannot create", Exit::cannot_create);
}

}  // namespace mt
