#include "model/config/mamba_config.h"

#include <cmath>
#include <string_view>

#include "base/error.h"
#include "model/config/ranges.h"
#include "model/layers.h"

namespace mt {

constexpr const char* kPattern = "--hybrid-...-pattern ";  // whichever option said it

static void complete_mixers(MambaConfig& c, std::int64_t hidden_size, std::int64_t ranks) {
  if (c.mamba_num_heads == 0) {
    if (2 * hidden_size % c.mamba_head_dim != 0)
      fail(Exit::bad_config, "--mamba-head-dim ", c.mamba_head_dim,
           ": does not divide twice the hidden size, ", 2 * hidden_size);
    c.mamba_num_heads = 2 * hidden_size / c.mamba_head_dim;
  }
  check_range("--mamba-num-heads", c.mamba_num_heads, between(1, kWide));
  if (c.mamba_num_heads % c.mamba_num_groups != 0)
    fail(Exit::bad_config, "--mamba-num-groups ", c.mamba_num_groups, ": does not divide ",
         c.mamba_num_heads, " heads");
  if (c.mamba_num_groups % ranks != 0)
    fail(Exit::bad_config, "--mamba-num-groups ", c.mamba_num_groups,
         ": not a multiple of tensor_model_parallel_size (", ranks, ")");
}

void MambaConfig::complete_mamba(std::int64_t layers, std::int64_t hidden_size,
                                 std::int64_t ranks) {
  if (hybrid_pattern.empty()) hybrid_pattern.assign(static_cast<std::size_t>(layers), 'M');
  if (std::ssize(hybrid_pattern) != layers)
    fail(Exit::bad_config, kPattern, hybrid_pattern, ": has ", hybrid_pattern.size(),
         " layers, expected ", layers);
  check_pattern(hybrid_pattern);
  check_pattern(mtp_hybrid_pattern);
  if (has_layer('*') && has_layer('+'))
    fail(Exit::bad_config, kPattern, hybrid_pattern,
         ": has attention of both kinds, * and +, expected one");
  if (has_layer('M'))
    complete_mixers(*this, hidden_size, ranks);
  else
    check_range("--mamba-num-heads", mamba_num_heads, between(0, kWide));
}

void MambaConfig::check_pattern(const std::string& pattern) const {
  constexpr std::string_view kOthers = "GD";  // of Megatron's main
  const std::string letters = pattern_letters();
  const std::size_t at = pattern.find_first_not_of(letters);
  if (at == std::string::npos) return;
  fail(Exit::bad_config, kPattern, pattern, ": layer ", at + 1, ", ", pattern[at],
       kOthers.find(pattern[at]) == kOthers.npos ? ", is none of " : ", is not supported, unlike ",
       letters);
}

std::string MambaConfig::whole_pattern(std::int64_t further_tokens) const {
  std::string all = hybrid_pattern;
  for (std::int64_t i = 0; i < further_tokens && !mtp_hybrid_pattern.empty(); ++i)
    all += "/" + mtp_hybrid_pattern;
  return all;
}

// The parts of a text between separators.
static std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

HybridPattern parse_hybrid_pattern(const std::string& pattern) {
  const std::vector<std::string> parts = parts_of(pattern, '/');
  HybridPattern all{.further_tokens = std::ssize(parts) - 1};
  const std::vector<std::string> stages = parts_of(parts.front(), '|');
  for (const std::string& stage : stages) {
    all.layers += stage;
    if (stages.size() > 1) all.segments.push_back(std::ssize(stage));
  }
  if (all.layers.empty()) fail(Exit::bad_config, kPattern, pattern, ": has no layer");
  if (parts.size() == 1) return all;
  all.further = parts[1];
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].empty() || parts[i].find('|') != std::string::npos)
      fail(Exit::bad_config, kPattern, pattern, ": expected layers, and no |, behind each /");
    if (parts[i] != all.further)
      fail(Exit::bad_config, kPattern, pattern, ": predicts a token by ", parts[i],
           " and another by ", all.further, ", expected the same layers");
  }
  return all;
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
