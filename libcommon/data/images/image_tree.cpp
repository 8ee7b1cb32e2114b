#include "data/images/image_tree.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

// These are the endings that torchvision lists.
constexpr std::string_view kRead[] = {".jpg", ".jpeg", ".png", ".webp"},
                           kNotRead[] = {".ppm", ".bmp", ".pgm", ".tif", ".tiff"};

bool is_image(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (std::ranges::count(kNotRead, ending) > 0)
    fail(Exit::bad_data, path.string(),
         ": an image of a format that is not read, expected JPEG, "
         "PNG or WebP");
  return std::ranges::count(kRead, ending) > 0;
}

std::vector<std::string> images_in(const fs::path& folder) {
  std::vector<std::string> found;
  for (const auto& entry :
       fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink))
    if (entry.is_regular_file() && is_image(entry.path())) found.push_back(entry.path().string());
  std::ranges::sort(found, {}, [](const std::string& path) {
    const std::size_t name = path.rfind('/');
    return std::pair(path.substr(0, name), path.substr(name));
  });
  return found;
}

std::size_t share_of(std::size_t count, double share) {
  return static_cast<std::size_t>(static_cast<double>(count) * share);
}

}  // namespace

ImageTree::ImageTree(const std::string& folder, const Shares& shares) : folder_(folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    fail(Exit::no_input, folder, ": not a folder, expected one with a folder of images a class");
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory()) classes_.push_back(entry.path().filename().string());
  std::ranges::sort(classes_);
  for (std::size_t i = 0; i < share_of(classes_.size(), shares.classes); ++i) {
    std::vector<std::string> found = images_in(fs::path(folder) / classes_[i]);
    found.resize(share_of(found.size(), shares.of_class));
    if (found.empty())
      fail(Exit::no_input, folder, '/', classes_[i], ": holds no image, or none of the share");
    for (std::string& path : found)
      images_.push_back({std::move(path), static_cast<std::int32_t>(i)});
  }
  if (images_.empty())
    fail(Exit::no_input, folder, ": holds no folder of a class, or none of the share");
}

}  // namespace mt
