// FilePart: a file, or a part of it, a member of a tar file say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mt {

struct FilePart {
  std::string path;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> size = {};  // nothing: to the end
  std::string name = {};                   // in errors, if not the path

  const std::string& called() const { return name.empty() ? path : name; }
};

}  // namespace mt
