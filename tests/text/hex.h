// Columns of the golden files: bytes in hex and ids in a list; "-" is nothing.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace mt {

inline std::string from_hex(const std::string& digits) {
  std::string bytes;
  if (digits == "-") return bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

inline std::vector<std::int32_t> from_list(const std::string& numbers) {
  std::vector<std::int32_t> list;
  std::istringstream in(numbers == "-" ? "" : numbers);
  for (std::string number; std::getline(in, number, ',');) list.push_back(std::stoi(number));
  return list;
}

}  // namespace mt
