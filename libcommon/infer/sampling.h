// Sampling: the choice of the next token from logits, a function of the logits, the options and the
// place of the token alone (DESIGN D5), so that the same command gives the same text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/command.h"

namespace mt {

struct SamplingOptions {
  double temperature = 1;  // logits are divided by it; 0: the likeliest token
  std::int64_t top_k = 0;  // only the k likeliest tokens; 0: all
  double top_p = 1;        // only the likeliest tokens that together have this probability
  std::uint64_t seed = 1234;
  void add_to(CommandLine& cl);
};

// The place of a token: which text of the run, and which token of that text.
struct TokenPlace {
  std::uint32_t text = 0, token = 0;
};

// A token from [0, logits.size()).  Ties go to the smaller id.  A logit that is not a number is
// Exit::bad_data.
std::int32_t sample_token(std::span<const double> logits, const SamplingOptions& options,
                          TokenPlace place);

}  // namespace mt
