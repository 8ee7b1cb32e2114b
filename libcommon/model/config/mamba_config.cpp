#include "model/config/mamba_config.h"

#include <cmath>

#include "base/error.h"
#include "model/config/ranges.h"
#include "model/layers.h"

namespace mt {

void MambaConfig::complete_mamba(std::int64_t layers, std::int64_t hidden_size,
                                 std::int64_t ranks) {
  if (mamba_num_heads == 0) {
    if (2 * hidden_size % mamba_head_dim != 0)
      fail(Exit::bad_config, "--mamba-head-dim ", mamba_head_dim,
           ": does not divide twice the hidden size, ", 2 * hidden_size);
    mamba_num_heads = 2 * hidden_size / mamba_head_dim;
  }
  check_range("--mamba-num-heads", mamba_num_heads, between(1, kWide));
  if (mamba_num_heads % mamba_num_groups != 0)
    fail(Exit::bad_config, "--mamba-num-groups ", mamba_num_groups, ": does not divide ",
         mamba_num_heads, " heads");
  if (mamba_num_groups % ranks != 0)
    fail(Exit::bad_config, "--mamba-num-groups ", mamba_num_groups,
         ": not a multiple of tensor_model_parallel_size (", ranks, ")");
  if (hybrid_pattern.empty()) hybrid_pattern.assign(static_cast<std::size_t>(layers), 'M');
  if (std::ssize(hybrid_pattern) != layers)
    fail(Exit::bad_config, "--hybrid-override-pattern ", hybrid_pattern, ": has ",
         hybrid_pattern.size(), " layers, expected ", layers);
  const std::string letters = pattern_letters();
  if (const std::size_t at = hybrid_pattern.find_first_not_of(letters); at != std::string::npos)
    fail(Exit::bad_config, "--hybrid-override-pattern ", hybrid_pattern, ": layer ",
         hybrid_pattern[at], " is not supported, expected one of ", letters);
}

// Puts `letter` for the M's that lie so many others apart.
static void spread(std::string& pattern, char letter, double apart) {
  double others = apart;
  for (char& layer : pattern) {
    if (layer != 'M') continue;
    if (others < 0.5) layer = letter;
    others += layer == letter ? apart : -1;
  }
}

std::string hybrid_pattern_of(std::int64_t layers, double attention_ratio, double mlp_ratio) {
  const auto share = [&](double ratio) {  // halves to even
    return std::nearbyint(static_cast<double>(layers) * ratio);
  };
  const double attention = share(attention_ratio), mlps = share(mlp_ratio),
               others = static_cast<double>(layers) - attention;
  std::string pattern(static_cast<std::size_t>(layers), 'M');
  spread(pattern, '*', others / (attention + 1));
  if (mlps > 0) spread(pattern, '-', (others - mlps) / mlps);
  return pattern;
}

}  // namespace mt
