// Words for comparisons of texts: runs of letters and digits, in lower case, each as a hash.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace mt {

std::vector<std::uint64_t> word_hashes(std::string_view text);

// A hash of several words in their order.
std::uint64_t hash_of(std::span<const std::uint64_t> words);

// Spreads the bits of a number (splitmix64, Steele, Lea and Flood, OOPSLA 2014).
constexpr std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace mt
