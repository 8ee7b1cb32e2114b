#include "text/training/output_folder.h"

#include <unistd.h>

#include <filesystem>

#include "base/error.h"

namespace mt {

OutputFolder::OutputFolder(const std::string& path) : path_(path) {
  std::error_code error;
  made_ = std::filesystem::create_directories(path, error);
  if (error) fail(Exit::cannot_create, path, ": cannot create: ", error.message());
}

OutputFolder::~OutputFolder() {
  if (made_) ::rmdir(path_.c_str());
}

}  // namespace mt
