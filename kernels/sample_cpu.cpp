#include "kernels/sample.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"

namespace mt::cpu {

static double largest_of(std::span<const double> logits) {
  const double largest = *std::ranges::max_element(logits);
  if (!std::isfinite(largest) ||
      std::ranges::any_of(logits, [](double x) { return std::isnan(x); }))
    fail(Exit::bad_data, "the model's logits are not numbers");
  return largest;
}

// The smallest logit that top-k keeps.
static double threshold_of(std::span<const double> logits, std::size_t top_k) {
  std::vector<double> values(logits.begin(), logits.end());
  const auto kth = values.begin() + static_cast<std::ptrdiff_t>(top_k) - 1;
  std::nth_element(values.begin(), kth, values.end(), std::greater());
  return *kth;
}

// By falling weight, then rising id; only as many are sorted as are kept.
static void keep_top_p(std::vector<Candidate>& all, double top_p) {
  double total = 0, sum = 0;
  for (const Candidate& c : all) total += c.weight;
  const auto likelier = [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  };
  std::size_t kept = 0, sorted = 0;
  while (kept < all.size() && sum <= top_p * total) {
    if (kept == sorted) {
      const std::size_t more = std::min(all.size(), std::max<std::size_t>(64, 8 * sorted));
      std::partial_sort(all.begin() + static_cast<std::ptrdiff_t>(sorted),
                        all.begin() + static_cast<std::ptrdiff_t>(more), all.end(), likelier);
      sorted = more;
    }
    sum += all[kept++].weight;
  }
  all.resize(kept);
}

std::vector<Candidate> candidates(std::span<const double> logits, const Sampling& rule) {
  const double largest = largest_of(logits);
  if (rule.temperature == 0 || rule.top_k == 1) {
    const auto first = std::ranges::find(logits, largest);
    return {{static_cast<std::int32_t>(first - logits.begin()), 1}};
  }
  const auto top_k = static_cast<std::size_t>(rule.top_k);
  const double threshold =
      0 < top_k && top_k < logits.size() ? threshold_of(logits, top_k) : -HUGE_VAL;
  std::vector<Candidate> kept;
  if (threshold == -HUGE_VAL) kept.reserve(logits.size());
  for (std::size_t id = 0; id < logits.size(); ++id)
    if (logits[id] >= threshold)
      kept.push_back(
          {static_cast<std::int32_t>(id), std::exp((logits[id] - largest) / rule.temperature)});
  if (0 < rule.top_p && rule.top_p < 1) keep_top_p(kept, rule.top_p);
  return kept;
}

std::int32_t draw(std::span<const Candidate> candidates, double total, const Choice& choice) {
  const TokenPlace& place = choice.place;
  const RandomKey key = RandomKey::make(choice.rule.seed, kSampling);
  double left = to_unit(philox({place.token, place.prompt, place.sample, 0}, key)[0]) * total;
  std::int32_t last = candidates.front().id;  // of those that can be drawn
  for (const auto& [id, weight] : candidates) {
    if (weight > 0) last = id;
    if ((left -= weight) < 0) break;
  }
  return last;
}

std::int32_t sample(std::span<const double> logits, const Choice& choice) {
  const std::vector<Candidate> kept = candidates(logits, choice.rule);
  double total = 0;
  for (const Candidate& c : kept) total += c.weight;
  return draw(kept, total, choice);
}

}  // namespace mt::cpu
