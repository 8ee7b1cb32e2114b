// FNV-1a, 64 bits, as the scripts that make goldens have it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

#include "base/file.h"

namespace mt {

struct Fnv {
  std::uint64_t state = 0xCBF29CE484222325;
  void update(Bytes bytes) {
    for (const std::byte byte : bytes)
      state = (state ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001B3;
  }
  std::string hex() const {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(state));
    return digits;
  }
};

// Of the elements' bytes.
template <class Range>
std::string hash_of(const Range& range) {
  Fnv fnv;
  fnv.update(std::as_bytes(std::span(range)));
  return fnv.hex();
}

inline std::string hash_of_file(const std::string& path) { return hash_of(read_file(path)); }

}  // namespace mt
