// Advantages: by how much a text of a group, all of one prompt, was better than it could be
// expected to be.  With r the rewards of n texts of a group, and b and sd taken of all of them, or
// of the n - 1 others where one is left out (NeMo RL):
//   group       (r - b) / (sd + epsilon), sd with divisor n - 1     (arXiv:2402.03300, 4.1.2; TRL)
//   population  the same with divisor n                             (Megatron-LM)
//   batch       sd of all texts of the batch, with divisor n - 1    (TRL)
//   none        r - b                                               (arXiv:2503.20783)
// A text left out is divided only where its sd is above 0.  A reward that is not a number is no
// reward: its text counts nowhere and has advantage 0, as has one of whom no other is left.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mt {

enum class RewardScale : std::uint8_t { group, population, batch, none };

struct AdvantageRules {
  bool leaves_out = false;
  RewardScale scale = RewardScale::group;
  double epsilon = 1e-4;
};

// Of a batch whose groups, so large each, stand one behind the other.
std::vector<double> advantages(std::span<const double> rewards, std::int64_t group,
                               const AdvantageRules& rules);

// Generalised advantages (arXiv:1506.02438, eq. 16) of the steps of a text, behind which the value
// is 0: A[t] = d[t] + gamma lambda A[t + 1], d[t] = r[t] + gamma V[t + 1] - V[t].  Returns are
// A + V.
std::vector<double> generalised_advantages(std::span<const double> rewards,
                                           std::span<const double> values, double gamma,
                                           double lambda);

// What a text of so many tokens loses: nothing up to `most` - `buffer`, and from there on linearly,
// `penalty` at `most` (arXiv:2503.14476, eq. 13, which has a lower bound; NeMo RL has none).
double overlong_penalty(std::int64_t length, std::int64_t most, std::int64_t buffer,
                        double penalty);

// The probability that of k texts, taken of n of which c are right, one is right at least
// (arXiv:2107.03374, eq. 1).
double pass_at(std::int64_t k, std::int64_t n, std::int64_t c);

}  // namespace mt
