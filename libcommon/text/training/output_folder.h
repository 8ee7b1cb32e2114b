// OutputFolder: a folder for outputs, made if need be with those above it.  Destroyed before
// anything lies in it, it goes again if it was made.
#pragma once

#include <string>

namespace mt {

class OutputFolder {
 public:
  explicit OutputFolder(const std::string& path);
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  ~OutputFolder();

 private:
  std::string path_;
  bool made_;
};

}  // namespace mt
