// Advantages: by how much a text of a group, all of one prompt, was better than it could be
// expected to be.  With r the rewards of n texts of a group, and b and sd taken of all of them, or
// of the n - 1 others where one is left out (NeMo RL):
//   group       (r - b) / (sd + epsilon), sd with divisor n - 1     (arXiv:2402.03300, 4.1.2; TRL)
//   population  the same with divisor n                             (Megatron-LM)
//   batch       sd of all texts of the batch, with divisor n - 1    (TRL)
//   texts       (a - mean) / (sd + epsilon), a = r - b, mean and sd of all texts' a, with divisor
//               n - 1                                               (TRL's RLOOTrainer)
//   tokens      (a - mean) / max(sd, 1e-4), mean and sd of all tokens' a, with divisor n
//                                                       (REINFORCE++: arXiv:2501.03262, eq. 10)
//   none        r - b                                               (arXiv:2503.20783)
// b is 0 where texts are not compared.  Nothing is divided by a sd of group, population or batch
// that is 0.  A reward that is not a number is no reward: its text counts nowhere and has
// advantage 0, as has one that is compared and of whom no other is left.
//
// The divergence from another model, K (kernels/policy_loss.h) of each token as the policy was when
// it was written, may be a part of these: beta times its sum over a text is taken from the text's
// reward, or beta K from each token's a.
//
// Or no text is compared with others, but each of its T tokens that the policy wrote with what was
// to be expected, as a value head said then, v (arXiv:1506.02438, eq. 16), where r_t is the text's
// reward of its last token and 0 of the others, less beta K_t:
//   d_t = r_t + gamma v_{t+1} - v_t,  v_{T+1} = 0
//   a_t = d_t + gamma lambda a_{t+1},  a_{T+1} = 0
// Such a are advantages, or are scaled as of `tokens`, and a_t + v_t is what is to be said of token
// t.  Tokens that others wrote in between are none of these.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/policy_loss.h"

namespace mt {

enum class RewardScale : std::uint8_t { group, population, batch, texts, tokens, none };
enum class KlPlace : std::uint8_t { loss, reward, advantage };

struct GaeRules {
  double lambda = 0.95, gamma = 1;
};

struct AdvantageRules {
  bool leaves_out = false, compares = true;
  RewardScale scale = RewardScale::group;
  double epsilon = 1e-4;
  KlPlace kl_place = KlPlace::loss;  // in that of a loss it is none of these
  double beta = 0;
  KlRules kl = {};
  bool masks_truncated = false;  // no token of a text that was cut counts
  std::optional<GaeRules> gae = {};
};

// Returns the advantages of a batch's texts, whose groups, so large each, stand one behind the
// other, before what each token adds.
std::vector<double> advantages(std::span<const double> rewards, std::int64_t group,
                               const AdvantageRules& rules);

// Returns the advantages of the tokens of one text by GAE, with a reward and a value for each
// token.
std::vector<double> gae_advantages(std::span<const double> rewards, std::span<const double> values,
                                   const GaeRules& rules);

// Takes from numbers with such weights their mean, and divides them by their standard deviation, or
// by 1e-4 where that is less.
void whiten(std::span<double> numbers, std::span<const double> weights);

}  // namespace mt
