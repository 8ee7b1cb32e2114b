// The fuzz targets over what they begin with and what they once found, whole and cut: none ends the
// program.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace mt {
namespace {

using Target = int(const std::uint8_t* input, std::size_t size);

// Folders of tests/fuzz/corpus, and those that a target's own source names.
std::vector<std::string> seeds_of(const std::string& target) {
  const std::string root = std::string(MT_TESTDATA) + "/../", mark = "// Seeds: ";
  std::vector<std::string> folders = {root + "tests/fuzz/corpus/" + target};
  std::istringstream source(read_file(root + "tests/fuzz/" + target + ".cpp"));
  for (std::string line; std::getline(source, line);)
    if (line.starts_with(mark)) folders.push_back(root + line.substr(mark.size()));
  std::vector<std::string> seeds = {"", std::string(1, '\0'), "{}"};
  for (const std::string& folder : folders) {
    if (!std::filesystem::is_directory(folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.is_regular_file()) seeds.push_back(read_file(entry.path().string()));
  }
  return seeds;
}

void run_over_seeds(const std::string& name, Target* target) {
  constexpr std::size_t kCuts = 8;
  for (const std::string& seed : seeds_of(name))
    for (std::size_t part = 1; part <= kCuts; ++part) {
      const std::string_view cut = std::string_view(seed).substr(0, seed.size() * part / kCuts);
      EXPECT_EQ(target(reinterpret_cast<const std::uint8_t*>(cut.data()), cut.size()), 0);
    }
}

}  // namespace

#define TARGET(name)      \
  extern "C" Target name; \
  TEST(FuzzSeeds, name) { run_over_seeds(#name, name); }
MT_FUZZ_TARGETS
#undef TARGET

}  // namespace mt
