#include "post/policy/advantages.h"

#include <algorithm>
#include <cmath>

namespace mt {
namespace {

struct Moments {
  double count = 0, mean = 0, variance = 0;  // divided by count - `freedom`; 0 of one number
};

// Takes the moments of all numbers but that at `without`.
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
  std::vector<double> all(rewards.size(), NAN);
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    if (std::isnan(rewards[i])) continue;
    const std::size_t first = i / size * size;
    const auto peers = rewards.subspan(first, std::min(size, rewards.size() - first));
    const Moments of = moments_of(peers, rules.leaves_out ? i - first : nobody, freedom);
    if (of.count == 0) continue;
    all[i] = rewards[i] - (rules.compares ? of.mean : 0);
    if (rules.scale >= RewardScale::texts) continue;
    const double sd = std::sqrt(rules.scale == RewardScale::batch ? of_batch : of.variance);
    if (sd > 0) all[i] /= sd + rules.epsilon;
  }
  if (rules.scale == RewardScale::texts) {
    const Moments of = moments_of(all, nobody, 1);
    for (double& one : all) one = (one - of.mean) / (std::sqrt(of.variance) + rules.epsilon);
  }
  for (double& one : all)
    if (std::isnan(one)) one = 0;
  return all;
}

std::vector<double> gae_advantages(std::span<const double> rewards, std::span<const double> values,
                                   const GaeRules& rules) {
  std::vector<double> all(rewards.size());
  double next_value = 0, next = 0;
  for (std::size_t t = all.size(); t-- > 0;) {
    next = rewards[t] + rules.gamma * next_value - values[t] + rules.gamma * rules.lambda * next;
    next_value = values[t];
    all[t] = next;
  }
  return all;
}

void whiten(std::span<double> numbers, std::span<const double> weights) {
  double count = 0, mean = 0, variance = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    count += weights[i];
    mean += weights[i] * numbers[i];
  }
  mean /= std::max(count, 1e-300);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    variance += weights[i] * (numbers[i] - mean) * (numbers[i] - mean);
  variance /= std::max(count, 1e-300);
  for (double& one : numbers) one = (one - mean) / std::sqrt(std::max(variance, 1e-8));
}

}  // namespace mt
