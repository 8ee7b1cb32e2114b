// A folder for one test's files, removed with all in it, and what a function printed.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/error.h"

namespace mt {

class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "mt-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail_errno(name, "cannot create", Exit::cannot_create);
    folder_ = name;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

 private:
  std::filesystem::path folder_;
};

// The code and line of what `body` throws, "65 x.bin: empty", or "" if it throws nothing.
template <class Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return concat(static_cast<int>(error.code()), " ", error.what());
  }
  return "";
}

}  // namespace mt
