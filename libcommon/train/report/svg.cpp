#include "train/report/svg.h"

#include <filesystem>

#include "base/error.h"
#include "base/file.h"

namespace mt {

static bool is_other_file(const std::string& path) {
  constexpr std::string_view kBegin = "<svg";
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return false;
  const MappedFile file(path);
  return !file.bytes().empty() && !as_text(file.bytes()).starts_with(kBegin);
}

void write_svg(const std::string& path, const std::string& image) {
  if (is_other_file(path))
    fail(Exit::cannot_create, path, ": exists and is no SVG image; expected another name");
  write_file_atomically(path, image, true);
}

}  // namespace mt
