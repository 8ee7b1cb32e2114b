#include "retro/block_list.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace mt {

std::vector<RetroBlock> retro_blocks(std::int64_t count, std::int64_t size) {
  // As many digits as the quotient says, which for 1000 is just below 3, and not above.
  const double digits = std::ceil(std::log(static_cast<double>(count)) / std::log(10.0)) + 1;
  const auto number = [&](std::int64_t item) {
    const std::string text = std::to_string(item);
    const auto wanted = static_cast<std::size_t>(digits);
    return std::string(wanted - std::min(wanted, text.size()), '0') + text;
  };
  std::vector<RetroBlock> blocks;
  for (std::int64_t begin = 0; begin < count; begin += size) {
    const ItemRange items = {begin, std::min(count, begin + size)};
    blocks.push_back({items, concat(number(items.begin), "-", number(items.end), ".hdf5")});
  }
  return blocks;
}

}  // namespace mt
