#include "base/near_path.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/option.h"

namespace mt {

namespace fs = std::filesystem;

std::vector<std::string> names_beside(const std::string& path, std::string_view ending) {
  constexpr std::size_t kMost = 10000;  // entries that are looked at
  std::vector<std::string> names;
  std::size_t seen = 0;
  std::error_code error;
  for (fs::directory_iterator entry(parent_directory(path), error), end;
       !error && entry != end && ++seen <= kMost; entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.starts_with('.') || !name.ends_with(ending) || name.size() == ending.size()) continue;
    name.resize(name.size() - ending.size());
    names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

std::string names_text(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 4;
  if (names.empty()) return "nothing";
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > kMost ? concat(text, " and ", names.size() - kMost, " more") : text;
}

std::string what_is_there(const std::string& path, std::string_view ending) {
  if (path.size() > 1 && path.ends_with('/'))
    return what_is_there(path.substr(0, path.size() - 1), ending);
  const std::string folder = parent_directory(path);
  std::error_code none;
  if (!fs::exists(folder, none))
    return concat("; there is no folder ", folder, what_is_there(folder));
  const std::vector<std::string> names = names_beside(path, ending);
  const std::string name = fs::path(path).filename().string();
  std::string near = nearest(name, names);
  const auto begun =
      std::ranges::count_if(names, [&](const auto& n) { return n.starts_with(name); });
  if (near.empty() && begun == 1)
    near = *std::ranges::find_if(names, [&](const auto& n) { return n.starts_with(name); });
  if (near.empty()) return concat("; in ", folder, ": ", names_text(names));
  return concat("; did you mean ", folder == "." ? near : concat(folder, "/", near), "?");
}

}  // namespace mt
