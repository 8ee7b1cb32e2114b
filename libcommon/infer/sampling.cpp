#include "infer/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace mt {

void SamplingOptions::add_to(CommandLine& cl) {
  cl.section("Sampling");
  cl.option("--temperature", &temperature, "F", "divides the logits; 0: always the likeliest token",
            at_least(0));
  cl.option("--top-k", &top_k, "N", "only the N likeliest tokens; 0: all", at_least(0));
  cl.option("--top-p", &top_p, "F", "only the likeliest tokens that together have this probability",
            between(0, 1));
  cl.option("--seed", &seed, "N", "seed of the choices", at_least(0));
}

static constexpr std::uint32_t kSampling = 0x5A4D504C;  // purpose of these random numbers

// Ids by falling logit; equal ones by rising id.
static std::vector<std::int32_t> ranked(std::span<const double> logits, std::size_t count) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto better = [&](std::int32_t a, std::int32_t b) {
    const double la = logits[static_cast<std::size_t>(a)], lb = logits[static_cast<std::size_t>(b)];
    return la != lb ? la > lb : a < b;
  };
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(),
                    better);
  ids.resize(count);
  return ids;
}

std::int32_t sample_token(std::span<const double> logits, const SamplingOptions& options,
                          TokenPlace place) {
  if (std::ranges::any_of(logits, [](double x) { return std::isnan(x); }))
    fail(Exit::bad_data, "the model's logits are not numbers");
  if (options.temperature == 0) return ranked(logits, 1).front();
  const auto top_k = static_cast<std::size_t>(options.top_k);
  const std::vector<std::int32_t> ids =
      ranked(logits, top_k == 0 ? logits.size() : std::min(top_k, logits.size()));
  const double largest = logits[static_cast<std::size_t>(ids.front())];
  std::vector<double> weights;
  for (const std::int32_t id : ids)
    weights.push_back(
        std::exp((logits[static_cast<std::size_t>(id)] - largest) / options.temperature));
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (options.top_p < 1) {
    double sum = 0;
    std::size_t count = 0;
    while (count < weights.size() && (count == 0 || sum < options.top_p * total))
      sum += weights[count++];
    weights.resize(count);
    total = sum;
  }
  const RandomKey key = RandomKey::make(options.seed, kSampling);
  double left = to_unit(philox({place.token, place.text, 0, 0}, key)[0]) * total;
  for (std::size_t i = 0; i < weights.size(); ++i)
    if ((left -= weights[i]) < 0) return ids[i];
  return ids[weights.size() - 1];
}

}  // namespace mt
