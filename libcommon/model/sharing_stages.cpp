#include "model/sharing_stages.h"

#include <algorithm>
#include <set>

#include "model/layers.h"

namespace mt {

std::vector<std::vector<int>> sharing_ranks(const StageRanges& stages, int ranks,
                                            const std::vector<LayerPlan>& layers) {
  const auto turn = std::ranges::find_if(
      layers, [&](const LayerPlan& layer) { return layer.stack != layers.front().stack; });
  const std::int64_t first = turn - layers.begin(), all = std::ssize(layers);
  const auto ranks_with = [&](const auto& uses) {
    std::set<int> found;
    for (std::size_t i = 0; i < stages.size(); ++i)
      if (uses(stages[i])) found.insert(static_cast<int>(i) % ranks);
    return std::vector<int>(found.begin(), found.end());
  };
  const auto embeds = [&](const StageRange& r) {
    return r.first || (first < all && r.begin <= first && first < r.end);
  };
  std::vector<std::vector<int>> sets = {
      ranks_with([&](const StageRange& r) { return embeds(r) || r.last; })};
  if (first == all) return sets;
  const auto has_some = [](std::int64_t begin, std::int64_t end) {
    return [=](const StageRange& r) { return std::max(r.begin, begin) < std::min(r.end, end); };
  };
  sets.push_back(ranks_with(embeds));
  sets.push_back(ranks_with(has_some(0, first)));
  sets.push_back(ranks_with(has_some(first, all)));
  return sets;
}

}  // namespace mt
