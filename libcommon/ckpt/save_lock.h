// SaveLock: the right to save in a folder, which one process has at a time.
#pragma once

#include <string>

namespace mt {

class SaveLock {
 public:
  // Exit::cannot_create, naming the process, where another one saves there.  What a dead process
  // left is taken over.  Where files cannot be locked, as on some network file systems, a process
  // of this host is known by its number, and one of another host is not known.  `part`: of several
  // parts of a folder, which one process each may save.
  explicit SaveLock(const std::string& folder, const std::string& part = {});
  SaveLock(const SaveLock&) = delete;
  ~SaveLock();

  // At the end the folder is removed, too, where nothing is in it: it was made for what was not to
  // be saved.
  void own_folder() { owns_folder_ = true; }

 private:
  std::string folder_, path_;
  bool owns_folder_ = false;
  int descriptor_ = -1;
};

}  // namespace mt
