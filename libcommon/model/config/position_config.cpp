#include "model/config/position_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace mt {

// The numbers of a list, none of one that is malformed.
static std::vector<double> numbers_of(const std::string& list) {
  std::vector<double> numbers;
  const char *at = list.data(), *const end = at + list.size();
  while (at < end) {
    double number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || !(number > 0) || !std::isfinite(number)) return {};
    if (next != end && (*next != ',' || next + 1 == end)) return {};
    numbers.push_back(number);
    at = next + (next != end);
  }
  return numbers;
}

// Refuses what would be without effect, and what Megatron-LM rejects.
void PositionConfig::check(std::int64_t head_dim, std::int64_t layers) const {
  const std::int64_t channels = rotated(head_dim);
  if (has_rope() && (channels == 0 || channels % 2 != 0))
    fail(Exit::bad_config, "--rotary-percent ", rotary_percent, ": rotates ", channels, " of ",
         head_dim, " channels, expected an even number of them");
  if (!position_embedding && has_positions())
    fail(Exit::bad_config,
         "--no-position-embedding: is ignored by Megatron-Core's models; use "
         "--position-embedding-type none or rope");
  const bool factors = !rope_frequency_factors.empty() || rope_attention_factor != 1;
  const bool rotary = rotary_interleaved || rotary_interpolation || use_rope_scaling || factors ||
                      rotary_base_window != 0 || !no_rope_freq.empty();
  if (rotary && !has_rope())
    fail(Exit::bad_config,
         rotary_interleaved     ? "--rotary-interleaved"
         : rotary_interpolation ? "--rotary-seq-len-interpolation-factor"
         : use_rope_scaling     ? "--use-rope-scaling"
         : rotary_base_window   ? "--rotary-base-window"
         : factors              ? "--rope-frequency-factors"
                                : "--no-rope-freq",
         ": needs --position-embedding-type rope");
  if (!has_rope()) return;
  if (const auto pairs = std::ssize(numbers_of(rope_frequency_factors));
      !rope_frequency_factors.empty() && pairs != channels / 2)
    fail(Exit::bad_config, "--rope-frequency-factors: are ", pairs, ", expected one for each of ",
         channels / 2, " pairs of channels, with commas between them, each above 0");
  if (no_rope_freq.size() == 1 && (no_rope_freq[0] < 1 || layers % no_rope_freq[0] != 0))
    fail(Exit::bad_config, "--no-rope-freq ", no_rope_freq[0], ": does not divide ", layers,
         " layers");
  if (no_rope_freq.size() > 1 && std::ssize(no_rope_freq) != layers)
    fail(Exit::bad_config, "--no-rope-freq: ", no_rope_freq.size(), " numbers for ", layers,
         " layers");
}

bool PositionConfig::turns(std::int64_t layer) const {
  if (!has_rope() || no_rope_freq.empty()) return has_rope();
  return no_rope_freq.size() == 1 ? (layer + 1) % no_rope_freq[0] != 0
                                  : no_rope_freq[static_cast<std::size_t>(layer)] == 0;
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

// A quotient that was rounded down, times what it was divided by, may be less than the whole.
double rotary_percent_of(std::int64_t channels, std::int64_t head_dim) {
  const auto whole = static_cast<double>(channels), all = static_cast<double>(head_dim);
  const double part = whole / all;
  return all * part < whole ? std::nextafter(part, 1.0) : part;
}

std::vector<double> PositionConfig::frequencies(std::int64_t head_dim) const {
  const std::int64_t half = rotated(head_dim) / 2;
  const std::vector<double> factors = numbers_of(rope_frequency_factors);
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < half; ++i) {
    const double f = std::pow(rotary_base, -static_cast<double>(i) / static_cast<double>(half));
    const double factor = factors.empty() ? 1 : factors[static_cast<std::size_t>(i)];
    frequencies.push_back((use_rope_scaling ? llama3_scaled(f, rope_scaling_factor) : f) / factor /
                          rotary_interpolation.value_or(1));
  }
  return frequencies;
}

std::vector<double> PositionConfig::window_frequencies(std::int64_t head_dim) const {
  if (rotary_base_window == 0) return frequencies(head_dim);
  PositionConfig plain;
  plain.position_embedding_type = position_embedding_type;
  plain.rotary_percent = rotary_percent;
  plain.rotary_base = rotary_base_window;
  return plain.frequencies(head_dim);
}

}  // namespace mt
