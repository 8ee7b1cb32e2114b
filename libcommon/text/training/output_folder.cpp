#include "text/training/output_folder.h"

#include <unistd.h>

#include "base/folder.h"

namespace mt {

OutputFolder::OutputFolder(const std::string& path) : path_(path), made_(make_folder(path)) {}

OutputFolder::~OutputFolder() {
  if (made_) ::rmdir(path_.c_str());
}

}  // namespace mt
