#include "kernels/smallest.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/loops.h"

namespace mt::cpu {

void smallest(std::int32_t* numbers, float* distances, const SmallestOf& problem) {
  for_blocks(problem.rows, 1, [&](std::int64_t row, std::int64_t) {
    const std::int64_t begin = problem.begin(row), length = problem.begin(row + 1) - begin;
    std::int32_t* const of_row = numbers + row * problem.count;
    float* const far = distances + row * problem.count;
    std::uint64_t limit =
        std::numeric_limits<std::uint64_t>::max();  // the largest key that is taken
    if (length > problem.count) {
      std::vector<std::uint64_t> keys;
      for (std::int64_t j = 0; j < length; ++j) keys.push_back(problem.key(begin + j, j));
      const auto last = keys.begin() + problem.count - 1;
      std::ranges::nth_element(keys, last);
      limit = *last;
    }
    std::int64_t taken = 0;
    for (std::int64_t j = 0; j < length; ++j) {
      if (problem.key(begin + j, j) > limit) continue;
      of_row[taken] = problem.number(begin + j, j);
      far[taken++] = problem.distance(begin + j, j);
    }
    for (; taken < problem.count; ++taken) {
      of_row[taken] = -1;
      far[taken] = std::numeric_limits<float>::max();
    }
  });
}

}  // namespace mt::cpu
