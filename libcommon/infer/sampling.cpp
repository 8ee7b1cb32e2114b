#include "infer/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cross_entropy.h"

namespace mt {

void SamplingOptions::add_to(CommandLine& cl) {
  cl.section("Sampling");
  cl.option("--temperature", &temperature, "F", "divides the logits; 0: always the likeliest token",
            at_least(0));
  cl.option("--top-k", &top_k, "N", "only the N likeliest tokens; 0: all", at_least(0));
  cl.option("--top-p", &top_p, "F",
            "only the likeliest tokens that together have this probability; 0: all", between(0, 1));
  cl.option("--seed", &seed, "N", "seed of the choices", at_least(0));
}

Choice following(Choice choice, const TopPDecay& decay) {
  ++choice.place.token;
  if (double& p = choice.rule.top_p; decay.factor > 0) p = std::max(p * decay.factor, decay.least);
  return choice;
}

void to_f64(std::vector<double>& numbers, ConstTensor logits) {
  numbers.resize(static_cast<std::size_t>(logits.numel()));
  with_float_type(logits.dtype(),
                  [&]<class T>() { std::ranges::copy(logits.span<T>(), numbers.begin()); });
}

std::int32_t SharedLogits::sample(const Choice& choice) {
  if (rule_ != choice.rule) {
    candidates_ = cpu::candidates(logits_, choice.rule);
    rule_ = choice.rule;
    total_ = 0;
    for (const Candidate& one : candidates_) total_ += one.weight;
  }
  return cpu::draw(candidates_, total_, choice);
}

LogProbs log_probs(std::span<const double> logits, std::int32_t chosen, std::size_t count) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const double x : logits) sum += std::exp(x - largest);
  const double lse = largest + std::log(sum);
  const auto of = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)] - lse; };
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  count = std::min(count, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      const double x = of(a), y = of(b);
                      return x != y ? x > y : a < b;
                    });
  const double own = logits[static_cast<std::size_t>(chosen)];
  LogProbs result{.chosen = of(chosen),
                  .rank = 1 + std::ranges::count_if(logits, [&](double x) { return x > own; }),
                  .top = {}};
  for (const std::int32_t id : std::span(ids).first(count)) result.top.emplace_back(id, of(id));
  return result;
}

double score_of(std::span<const double> logits, std::int32_t chosen, double temperature,
                DType dtype) {
  double score = 0;
  with_float_type(dtype, [&]<class T>() {
    std::vector<T> row(logits.begin(), logits.end());
    if (temperature != 0 && temperature != 1)
      for (T& x : row) x = static_cast<T>(static_cast<double>(x) / temperature);
    T loss = 0;
    cpu::cross_entropy<T>(&loss, row.data(), &chosen, nullptr, 1, std::ssize(row), std::ssize(row),
                          0);
    score = -static_cast<double>(loss);
  });
  return score;
}

}  // namespace mt
