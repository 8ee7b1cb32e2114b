#include "post/policy/validation.h"

#include <algorithm>
#include <cmath>

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

// The mean over the prompts that have k texts that are judged; NaN: none has.
static double mean_pass_at(std::int64_t k, std::span<const double> rewards, std::size_t group,
                           double pass_reward) {
  double passed = 0, prompts = 0;
  for (std::size_t i = 0; i < rewards.size(); i += group) {
    const std::span<const double> texts = rewards.subspan(i, group);
    const auto judged =
        std::ssize(texts) - std::ranges::count_if(texts, [](double r) { return std::isnan(r); });
    if (judged < k) continue;
    prompts += 1;
    passed += pass_at(k, judged,
                      std::ranges::count_if(texts, [&](double r) { return r >= pass_reward; }));
  }
  return passed / prompts;
}

std::vector<std::pair<std::string, double>> numbers_of(std::span<const DrawnText> drawn,
                                                       std::int64_t group, double pass_reward) {
  std::vector<double> rewards;
  NamedMeans named;
  double tokens = 0, truncated = 0;
  for (const DrawnText& one : drawn) {
    rewards.push_back(one.rollout.reward);
    named.add(one.rollout.rewards);
    tokens += static_cast<double>(one.rollout.text.targets());
    truncated += one.rollout.truncated ? 1 : 0;
  }
  const RewardCount count = count_rewards(rewards);
  const auto texts = static_cast<double>(drawn.size());
  std::vector<std::pair<std::string, double>> numbers;
  if (count.without < std::ssize(drawn)) numbers.emplace_back("reward", count.mean);
  for (const auto& [name, mean] : named.means())
    if (!std::isnan(mean)) numbers.emplace_back(concat("reward.", name), mean);
  numbers.emplace_back("without_reward", static_cast<double>(count.without));
  numbers.emplace_back("completion_tokens", tokens / texts);
  numbers.emplace_back("truncated", truncated / texts);
  for (std::int64_t k = 1;; k = std::min(2 * k, group)) {
    const double passed = mean_pass_at(k, rewards, static_cast<std::size_t>(group), pass_reward);
    if (!std::isnan(passed)) numbers.emplace_back(concat("pass@", k), passed);
    if (k == group) return numbers;
  }
}

}  // namespace mt
