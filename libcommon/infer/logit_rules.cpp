#include "infer/logit_rules.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

namespace mt {

static constexpr double kNever = -std::numeric_limits<double>::infinity();

bool LogitRules::set_bias(std::string_view id, double added) {
  constexpr double kMost = 100;
  const char* const end = id.data() + id.size();
  std::int32_t token = -1;
  const auto read = std::from_chars(id.data(), end, token);
  if (read.ec != std::errc() || read.ptr != end || token < 0 || !(std::fabs(added) <= kMost))
    return false;
  bias[token] = added == -kMost ? kNever : added;
  return true;
}

bool LogitRules::any() const {
  return !bias.empty() || repetition_penalty != 1 || frequency_penalty != 0 ||
         presence_penalty != 0 || min_p > 0 || min_tokens > 0 || never_behind;
}

void LogitRules::apply(std::span<double> logits, std::span<const std::int32_t> ids,
                       std::size_t prompt_size, std::span<const std::int32_t> ends,
                       double temperature) const {
  const auto z = [&](std::int32_t id) -> double& { return logits[static_cast<std::size_t>(id)]; };
  const auto forbid = [&](std::int32_t id) {  // an end may be none of the model's tokens
    if (0 <= id && id < std::ssize(logits)) z(id) = kNever;
  };
  const std::span<const std::int32_t> made = ids.subspan(prompt_size);
  if (std::ssize(made) < min_tokens) std::ranges::for_each(ends, forbid);
  if (never_behind && !ids.empty() && ids.back() == never_behind->first)
    forbid(never_behind->second);
  for (const auto& [id, value] : bias) z(id) += value;
  if (repetition_penalty != 1) {
    for (const std::int32_t id : std::set(ids.begin(), ids.end()))
      z(id) = z(id) > 0 ? z(id) / repetition_penalty : z(id) * repetition_penalty;
  }
  if (frequency_penalty != 0 || presence_penalty != 0) {
    std::map<std::int32_t, std::int64_t> counts;
    for (const std::int32_t id : made) ++counts[id];
    for (const auto& [id, count] : counts)
      z(id) -= frequency_penalty * static_cast<double>(count) + presence_penalty;
  }
  if (min_p > 0 && temperature > 0) {
    const double least = std::ranges::max(logits) + temperature * std::log(min_p);
    for (double& logit : logits)
      if (logit < least) logit = kNever;
  }
}

}  // namespace mt
