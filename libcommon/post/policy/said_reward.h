// take_reward: what a program says that a text is worth: a number, null, which is none, or an
// object of such by names, whose sum it is.
#pragma once

#include <simdjson.h>

#include <string>

#include "post/policy/rewards.h"

namespace mt {

// What is wrong with it; empty: nothing.  A reward that is none is NaN.
std::string take_reward(simdjson::dom::element said, double& reward, NamedRewards& named);

}  // namespace mt
