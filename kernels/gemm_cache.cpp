#include "kernels/gemm_cache.h"

#include <cstdio>
#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "base/file.h"

namespace mt::cuda {

static std::string in_hex(const GemmAlgorithm& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm) {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016jx", static_cast<std::uintmax_t>(word));
    text += digits;
  }
  return text;
}

static std::optional<GemmAlgorithm> from_hex(const std::string& text) {
  GemmAlgorithm algorithm = {};
  if (text.size() != 16 * algorithm.size() ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos)
    return std::nullopt;
  for (std::size_t i = 0; i < algorithm.size(); ++i)
    algorithm[i] = std::stoull(text.substr(16 * i, 16), nullptr, 16);
  return algorithm;
}

GemmCache::GemmCache(std::string path) : path_(std::move(path)) {
  if (path_.empty() || !std::filesystem::is_regular_file(path_)) return;
  std::istringstream lines(read_file(path_));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    if (const auto algorithm = from_hex(line.substr(space + 1)))
      algorithms_[line.substr(0, space)] = *algorithm;
  }
}

std::optional<GemmAlgorithm> GemmCache::find(const std::string& problem) const {
  const auto found = algorithms_.find(problem);
  if (found == algorithms_.end()) return std::nullopt;
  return found->second;
}

void GemmCache::add(const std::string& problem, const GemmAlgorithm& algorithm) {
  algorithms_[problem] = algorithm;
  if (path_.empty()) return;
  try {
    File::append(path_).write(problem + ' ' + in_hex(algorithm) + '\n');
  } catch (const Error&) {
    path_.clear();
  }
}

}  // namespace mt::cuda
