#include "infer/step_runs.h"

#include <cassert>
#include <numeric>

namespace mt {

std::vector<std::size_t> step_runs(std::span<const std::int64_t> rows,
                                   std::span<const std::optional<std::size_t>> before,
                                   std::int64_t most) {
  const std::int64_t all = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  std::vector<std::int64_t> left(static_cast<std::size_t>((all + most - 1) / most), most);
  const auto take = [&](std::size_t run, std::int64_t count) {
    if (run >= left.size() || left[run] < count) return false;
    left[run] -= count;
    return true;
  };
  std::vector<std::size_t> runs(rows.size());
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    assert(rows[i] >= 1 && rows[i] <= most);
    if (before[i] && take(*before[i], rows[i]))
      runs[i] = *before[i];
    else
      others.push_back(i);
  }
  for (const std::size_t i : others)
    while (!take(runs[i], rows[i]))
      if (++runs[i] == left.size()) left.push_back(most);
  return runs;
}

}  // namespace mt
