// What the kernel says of the mapping that an address lies in.
#pragma once

#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>

namespace mt {

// The rest of a line of /proc/self/smaps, such as " sd hg" for "VmFlags"; nothing where there is no
// such line.
inline std::string mapping_of(const void* address, const std::string& name) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream lines("/proc/self/smaps");
  bool found = false;
  for (std::string line; std::getline(lines, line);) {
    std::uintptr_t begin = 0, end = 0;
    const char* const last = line.data() + line.size();
    const auto first = std::from_chars(line.data(), last, begin, 16);
    if (first.ptr != last && *first.ptr == '-' &&
        std::from_chars(first.ptr + 1, last, end, 16).ec == std::errc())
      found = begin <= wanted && wanted < end;
    else if (found && line.starts_with(name + ":"))
      return line.substr(name.size() + 1);
  }
  return "";
}

}  // namespace mt
