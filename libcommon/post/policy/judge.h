// Judge: who is asked what texts are worth, all of a step's together.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "post/policy/rewards.h"

namespace mt {

struct Response {
  std::string prompt, text;
  std::string asked = {};  // what the prompt says, without what a chat template puts around it
  const std::string* answer = nullptr;               // null: its prompt brings none
  bool truncated = false;                            // it has as many tokens as it may, and no end
  std::string messages = "null", metadata = "null";  // JSON, that the prompt brings
};

class Judge {
 public:
  struct Verdict {
    std::vector<double> rewards = {};  // of each response; NaN: none
    // What each of these is the sum of, where it is said so; empty: of no response.
    std::vector<NamedRewards> named = {};
    std::string wrong = {};  // what was wrong with the judge; empty: nothing
  };
  virtual ~Judge() = default;

  // Once `ends` says so, which is asked each second, it says no more.
  virtual Verdict judge(std::span<const Response> responses,
                        const std::function<bool()>& ends) const = 0;
};

}  // namespace mt
