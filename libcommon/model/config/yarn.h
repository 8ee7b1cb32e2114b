// Yarn: rotary positions beyond those that a model was first trained for (Peng et al.:
// arXiv:2309.00071).  Of r channels the pair i turns by f = base^(-2i/r) from a position to the
// next, or by f (ramp / factor + 1 - ramp): pairs that turn beta_fast times or more within the
// original positions stay, those that do beta_slow times or fewer have the factor, and between them
// the ramp is linear in i.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mt {

struct ModelConfig;

struct Yarn {
  double factor = 1, original = 4096;
  double beta_fast = 32, beta_slow = 1;
  bool rounds = true;  // the ends of the ramp, outwards to whole channels

  std::vector<double> ramp(double channels, double base) const;  // of each pair, from 0 to 1
  // M(m) = 0.1 m ln factor + 1, or 1 for a factor of at most 1.
  double magnitude(double m) const;
};

// What each pair's frequency is divided by, as --rope-frequency-factors has it.
std::string frequency_factors_text(const std::vector<double>& factors);
std::string frequency_factors_text(const Yarn& yarn, double channels, double base);

// Says what --position-embedding-type yarn is of, with the other settings of YaRN that the config
// has: rotary positions with frequency factors.  original: positions; none: 4096, as Megatron-LM's
// main has it.  mscale_all_dim: none: 0, likewise.
struct PlainYarn {
  std::optional<std::int64_t> original = {};
  std::optional<double> mscale_all_dim = {};
  bool rounds = true;
};
void take_plain_yarn(ModelConfig& config, const PlainYarn& plain);

}  // namespace mt
