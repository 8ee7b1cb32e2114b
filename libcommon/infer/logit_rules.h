// LogitRules: how a request changes the logits of a token before one is chosen from them, beyond
// temperature, top-k and top-p (kernels/sample.h).  In this order, which is vLLM's:
//   - a token that is not allowed has -infinity: those that would end the text before `min_tokens`
//     are made, and `never_behind`.second behind `never_behind`.first;
//   - bias[id] is added;
//   - repetition_penalty p: z of each token of the prompt and of what is made becomes z / p where
//     it is positive, else z p (Keskar et al. 2019, arXiv:1909.05858);
//   - z -= frequency_penalty n + presence_penalty [n > 0], where n is how often it was made;
//   - min_p: tokens with less than min_p times the probability of the likeliest, at the
//     temperature, have -infinity.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace mt {

struct LogitRules {
  std::map<std::int32_t, double> bias = {};
  double repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  double min_p = 0;
  std::int64_t min_tokens = 0;
  std::optional<std::pair<std::int32_t, std::int32_t>> never_behind = {};

  // Sets the bias of a token, whose number is a text; of -100 it is never chosen.  False for what
  // is no number of a token, and for a bias that is not from -100 to 100.
  bool set_bias(std::string_view id, double added);
  bool any() const;  // do they change anything?
  // ids: of the prompt, and from `prompt_size` on those that are made; ends: tokens that end the
  // text.
  void apply(std::span<double> logits, std::span<const std::int32_t> ids, std::size_t prompt_size,
             std::span<const std::int32_t> ends, double temperature) const;
};

}  // namespace mt
