#include "post/policy/validation.h"

#include <algorithm>

#include "base/error.h"

namespace mt {

// Of n texts of which c are right some are among k with 1 - C(n - c, k) / C(n, k)
// (arXiv:2107.03374, eq. 1).
static double pass_at(std::int64_t k, std::int64_t texts, std::int64_t right) {
  double none = 1;
  for (std::int64_t i = 0; i < k; ++i)
    none *= std::max(0.0, static_cast<double>(texts - right - i)) / static_cast<double>(texts - i);
  return 1 - none;
}

std::vector<std::pair<std::string, double>> numbers_of(std::span<const DrawnText> drawn,
                                                       std::int64_t group, double pass_reward) {
  std::vector<double> rewards;
  double tokens = 0, truncated = 0;
  for (const DrawnText& one : drawn) {
    rewards.push_back(one.rollout.reward);
    tokens += static_cast<double>(one.rollout.text.targets());
    truncated += one.rollout.truncated ? 1 : 0;
  }
  const RewardCount count = count_rewards(rewards);
  const auto texts = static_cast<double>(drawn.size());
  std::vector<std::pair<std::string, double>> numbers{
      {"reward", count.mean},
      {"without_reward", static_cast<double>(count.without)},
      {"completion_tokens", tokens / texts},
      {"truncated", truncated / texts}};
  const auto each = static_cast<std::size_t>(group);
  for (std::int64_t k = 1;; k = std::min(2 * k, group)) {
    double passed = 0;
    for (std::size_t i = 0; i < rewards.size(); i += each)
      passed += pass_at(k, group,
                        std::ranges::count_if(std::span(rewards).subspan(i, each),
                                              [&](double r) { return r >= pass_reward; }));
    numbers.emplace_back(concat("pass@", k), passed * static_cast<double>(group) / texts);
    if (k == group) return numbers;
  }
}

}  // namespace mt
