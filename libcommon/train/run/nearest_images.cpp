#include "train/run/nearest_images.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/threads.h"

namespace mt {

// Each of length 1.
static std::vector<float> directions(const KnownImages& images) {
  const std::size_t count = images.labels.size(), width = static_cast<std::size_t>(images.width);
  std::vector<float> all(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    const auto own = images.features.subspan(i * static_cast<std::size_t>(images.stride), width);
    const double length = std::sqrt(std::inner_product(own.begin(), own.end(), own.begin(), 0.0));
    for (std::size_t c = 0; c < width; ++c)
      all[i * width + c] = length > 0 ? static_cast<float>(own[c] / length) : 0.F;
  }
  return all;
}

std::vector<double> nearest_accuracy(const KnownImages& known, const KnownImages& asked,
                                     std::int64_t classes, std::span<const std::int64_t> k,
                                     double temperature) {
  const std::vector<float> bank = directions(known), queries = directions(asked);
  const std::size_t width = static_cast<std::size_t>(known.width), count = known.labels.size();
  std::vector<std::uint8_t> hits(asked.labels.size() * k.size());
  parallel_for(std::ssize(asked.labels), [&](std::int64_t q) {
    const float* const query = &queries[static_cast<std::size_t>(q) * width];
    std::vector<std::pair<float, std::int32_t>> near(count);  // cosine, and which
    for (std::size_t i = 0; i < count; ++i)
      near[i] = {std::inner_product(query, query + width, &bank[i * width], 0.F),
                 static_cast<std::int32_t>(i)};
    const auto most = static_cast<std::size_t>(
        std::clamp<std::int64_t>(*std::ranges::max_element(k), 0, std::ssize(near)));
    std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(most), near.end(),
                      [](const auto& a, const auto& b) {
                        return a.first != b.first ? a.first > b.first : a.second < b.second;
                      });
    for (std::size_t n = 0; n < k.size(); ++n) {
      std::vector<double> votes(static_cast<std::size_t>(classes));
      for (std::size_t i = 0; i < std::min(most, static_cast<std::size_t>(k[n])); ++i)
        votes[static_cast<std::size_t>(known.labels[static_cast<std::size_t>(near[i].second)])] +=
            std::exp(static_cast<double>(near[i].first) / temperature);
      const auto best = std::ranges::max_element(votes) - votes.begin();
      hits[static_cast<std::size_t>(q) * k.size() + n] =
          best == asked.labels[static_cast<std::size_t>(q)];
    }
  });
  std::vector<double> shares(k.size());
  for (std::size_t i = 0; i < hits.size(); ++i) shares[i % k.size()] += hits[i];
  for (double& share : shares) share *= 100 / static_cast<double>(asked.labels.size());
  return shares;
}

}  // namespace mt
