// What texts that a policy was validated by come to.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "post/policy/drawn_texts.h"

namespace mt {

// Names numbers of texts, so many of each prompt: the mean of their rewards, how many have none,
// their tokens, the share of those that were cut, and, for 1, 2, 4 and more of them up to all,
// pass@k, the mean over prompts; a text is right from that reward on.  A text without a reward is
// none that pass@k knows of, and a prompt with less than k others counts for no pass@k.  What
// nothing is left of is left out.
std::vector<std::pair<std::string, double>> numbers_of(std::span<const DrawnText> drawn,
                                                       std::int64_t group, double pass_reward);

}  // namespace mt
