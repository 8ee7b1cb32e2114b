#include "data/images/line_images.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"

namespace mt {

static bool is_file(const ChatValue& value) {
  return value.text() != nullptr && !value.text()->empty();
}

std::vector<std::string> images_of(const ChatValue& line, std::string_view place) {
  if (const ChatValue* const image = line.find("image"); image != nullptr && !image->is_none()) {
    if (!is_file(*image)) fail(Exit::bad_data, place, ": image: expected a file");
    return {*image->text()};
  }
  std::vector<std::string> files;
  const ChatValue* const list = line.find("images");
  if (list == nullptr || list->is_none()) return files;
  if (!list->is_list() || !std::ranges::all_of(*list->items(), is_file))
    fail(Exit::bad_data, place, ": images: expected a list of files");
  for (const ChatValue& file : *list->items()) files.push_back(*file.text());
  return files;
}

void check_image_is_there(const std::string& path, std::string_view place) {
  constexpr std::size_t kMostShown = 200;
  std::error_code error;  // also that of a name which no file can have
  if (!std::filesystem::is_regular_file(path, error))
    fail(Exit::bad_data, place, ": ", path.substr(0, kMostShown), ": there is no such image");
}

}  // namespace mt
