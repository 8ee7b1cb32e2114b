// What the kernel says of the mapping that an address lies in, or of the first of a file.
#pragma once

#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>

namespace mt {

// The rest of a line of /proc/self/smaps, such as " sd hg" for "VmFlags", behind the mapping's
// first line, for which is_it(begin, end, that line); nothing where there is no such line.
template <class IsIt>
std::string line_of_mapping(const std::string& name, const IsIt& is_it) {
  std::ifstream lines("/proc/self/smaps");
  bool found = false;
  for (std::string line; std::getline(lines, line);) {
    std::uintptr_t begin = 0, end = 0;
    const char* const last = line.data() + line.size();
    const auto first = std::from_chars(line.data(), last, begin, 16);
    if (first.ptr != last && *first.ptr == '-' &&
        std::from_chars(first.ptr + 1, last, end, 16).ec == std::errc())
      found = is_it(begin, end, line);
    else if (found && line.starts_with(name + ":"))
      return line.substr(name.size() + 1);
  }
  return "";
}

inline std::string mapping_of(const void* address, const std::string& name) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  return line_of_mapping(name, [&](std::uintptr_t begin, std::uintptr_t end, const std::string&) {
    return begin <= wanted && wanted < end;
  });
}

inline std::string mapping_of_file(const std::string& path, const std::string& name) {
  return line_of_mapping(name, [&](std::uintptr_t, std::uintptr_t, const std::string& line) {
    return line.ends_with(" " + path);
  });
}

}  // namespace mt
