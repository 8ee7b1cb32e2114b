#include "data/corpus/image_folder.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"

namespace mt {

ImageFolder::ImageFolder(const std::string& folder) : folder_(folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error))
    fail(Exit::no_input, folder, ": not a folder, expected one with images");
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.is_regular_file(error))
      fail(Exit::no_input, entry.path().string(), ": is no file, expected an image");
    paths_.push_back(entry.path().string());
  }
  std::sort(paths_.begin(), paths_.end());
}

std::vector<std::int32_t> ImageFolder::tokens(std::int64_t image) const {
  const std::string bytes = read_file(paths_[static_cast<std::size_t>(image)]);
  std::vector<std::int32_t> tokens(1 + (bytes.size() + 3) / 4);
  tokens[0] = static_cast<std::int32_t>((4 - bytes.size() % 4) % 4);
  std::memcpy(tokens.data() + 1, bytes.data(), bytes.size());
  return tokens;
}

}  // namespace mt
