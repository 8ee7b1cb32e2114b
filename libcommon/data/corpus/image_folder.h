// ImageFolder: the files of a folder, in the order of their names, as sequences of a multimodal
// token file (Megatron-LM core_v0.12.1, tools/preprocess_mmdata.py): the number of bytes, 0 to 3,
// that fill up the last token, then the file's bytes and those, as i32, little-endian.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mt {

class ImageFolder {
 public:
  // Throws Exit::no_input where there is no such folder.
  explicit ImageFolder(const std::string& folder);
  std::int64_t size() const { return static_cast<std::int64_t>(paths_.size()); }
  const std::string& path() const { return folder_; }
  std::vector<std::int32_t> tokens(std::int64_t image) const;

 private:
  std::string folder_;
  std::vector<std::string> paths_;
};

}  // namespace mt
