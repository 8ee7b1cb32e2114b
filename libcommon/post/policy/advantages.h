// Advantages: by how much a text of a group, all of one prompt, was better than it could be
// expected to be.  With r the rewards of n texts of a group, and b and sd taken of all of them, or
// of the n - 1 others where one is left out (NeMo RL):
//   group       (r - b) / (sd + epsilon), sd with divisor n - 1     (arXiv:2402.03300, 4.1.2; TRL)
//   population  the same with divisor n                             (Megatron-LM)
//   batch       sd of all texts of the batch, with divisor n - 1    (TRL)
//   none        r - b                                               (arXiv:2503.20783)
// Nothing is divided where sd is 0.  A reward that is not a number is no
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

}  // namespace mt
