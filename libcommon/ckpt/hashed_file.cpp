#include "ckpt/hashed_file.h"

#include <unistd.h>

namespace mt {

constexpr std::uint64_t kDirtyBytes = 16 << 20;  // written back before the file is complete

HashedFile::HashedFile(const std::string& folder, const std::string& name, std::size_t gathered)
    : file_(File::create(folder + "/" + name)), most_gathered_(gathered) {
  record_.name = name;
}

HashedFile::~HashedFile() {
  if (!closed_) ::unlink(file_.name().c_str());
}

void HashedFile::put(Bytes bytes) {
  file_.write(bytes);
  hasher_.update(bytes);
  dirty_ += bytes.size();
  if (dirty_ < kDirtyBytes) return;
  file_.write_back();
  dirty_ = 0;
}

void HashedFile::write(Bytes bytes) {
  record_.bytes += bytes.size();
  if (gathered_.size() + bytes.size() <= most_gathered_) {
    gathered_ += as_text(bytes);
    return;
  }
  put(as_bytes(gathered_));
  gathered_.clear();
  if (bytes.size() < most_gathered_)
    gathered_ += as_text(bytes);
  else
    put(bytes);
}

FileHash HashedFile::close() {
  put(as_bytes(gathered_));
  file_.sync();
  file_.close();
  closed_ = true;
  record_.hash = hasher_.hex();
  return record_;
}

}  // namespace mt
