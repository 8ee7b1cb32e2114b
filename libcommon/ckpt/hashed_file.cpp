#include "ckpt/hashed_file.h"

#include <unistd.h>

namespace mt {

HashedFile::HashedFile(const std::string& folder, const std::string& name)
    : file_(File::create(folder + "/" + name)) {
  record_.name = name;
}

HashedFile::~HashedFile() {
  if (!closed_) ::unlink(file_.name().c_str());
}

void HashedFile::write(Bytes bytes) {
  file_.write(bytes);
  hasher_.update(bytes);
  record_.bytes += bytes.size();
}

FileHash HashedFile::close() {
  file_.sync();
  file_.close();
  closed_ = true;
  record_.hash = hasher_.hex();
  return record_;
}

}  // namespace mt
