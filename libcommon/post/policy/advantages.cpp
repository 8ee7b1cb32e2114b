#include "post/policy/advantages.h"

#include <algorithm>
#include <cmath>

namespace mt {
namespace {

struct Moments {
  double count = 0, mean = 0, variance = 0;  // divided by count - `freedom`; 0 of one number
};

// Of the numbers, but for that at `without`.
Moments moments_of(std::span<const double> numbers, std::size_t without, double freedom) {
  Moments of;
  const auto over = [&](const auto& add) {
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (i != without && !std::isnan(numbers[i])) add(numbers[i]);
  };
  over([&](double x) {
    of.mean += x;
    ++of.count;
  });
  if (of.count == 0) return of;
  of.mean /= of.count;
  over([&](double x) { of.variance += (x - of.mean) * (x - of.mean); });
  of.variance = of.count > freedom ? of.variance / (of.count - freedom) : 0;
  return of;
}

}  // namespace

std::vector<double> advantages(std::span<const double> rewards, std::int64_t group,
                               const AdvantageRules& rules) {
  const auto size = static_cast<std::size_t>(group);
  const std::size_t nobody = rewards.size();
  const double freedom = rules.scale == RewardScale::population ? 0 : 1;
  const double of_batch = moments_of(rewards, nobody, 1).variance;
  std::vector<double> all(rewards.size());
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    if (std::isnan(rewards[i])) continue;
    const std::size_t first = i / size * size;
    const auto peers = rewards.subspan(first, std::min(size, rewards.size() - first));
    const Moments of = moments_of(peers, rules.leaves_out ? i - first : nobody, freedom);
    if (of.count == 0) continue;
    all[i] = rewards[i] - of.mean;
    if (rules.scale == RewardScale::none) continue;
    const double sd = std::sqrt(rules.scale == RewardScale::batch ? of_batch : of.variance);
    if (sd > 0) all[i] /= sd + rules.epsilon;
  }
  return all;
}

}  // namespace mt
