#include "model/config/position_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace mt {

// Refuses what would be without effect, and what Megatron-LM rejects.
void PositionConfig::check(std::int64_t head_dim) const {
  const std::int64_t channels = rotated(head_dim);
  if (has_rope() && (channels == 0 || channels % 2 != 0))
    fail(Exit::bad_config, "--rotary-percent ", rotary_percent, ": rotates ", channels, " of ",
         head_dim, " channels, expected an even number of them");
  if (!position_embedding && has_positions())
    fail(Exit::bad_config,
         "--no-position-embedding: is ignored by Megatron-Core's models; use "
         "--position-embedding-type none or rope");
  const bool rotary = rotary_interleaved || rotary_interpolation || use_rope_scaling;
  if (rotary && !has_rope())
    fail(Exit::bad_config,
         rotary_interleaved     ? "--rotary-interleaved"
         : rotary_interpolation ? "--rotary-seq-len-interpolation-factor"
                                : "--use-rope-scaling",
         ": needs --position-embedding-type rope");
}

// Llama 3.1's: wavelengths beyond 8192 tokens, which it had been trained with, are stretched,
// those below a quarter of it stay, and between them the change is smooth.
static double llama3_scaled(double frequency, double factor) {
  constexpr double kContext = 8192, kHigh = 4;
  const double turns = kContext * frequency / (2 * std::numbers::pi);  // within the context
  const double t = std::clamp((turns - 1) / (kHigh - 1), 0.0, 1.0);
  return (1 - t) * frequency / factor + t * frequency;
}

std::int64_t PositionConfig::rotated(std::int64_t head_dim) const {
  if (!has_rope()) return 0;
  return static_cast<std::int64_t>(static_cast<double>(head_dim) * rotary_percent);
}

std::vector<double> PositionConfig::frequencies(std::int64_t head_dim) const {
  const std::int64_t half = rotated(head_dim) / 2;
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < half; ++i) {
    const double f = std::pow(static_cast<double>(rotary_base),
                              -static_cast<double>(i) / static_cast<double>(half));
    frequencies.push_back((use_rope_scaling ? llama3_scaled(f, rope_scaling_factor) : f) /
                          rotary_interpolation.value_or(1));
  }
  return frequencies;
}

}  // namespace mt
