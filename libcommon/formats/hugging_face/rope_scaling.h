// RopeScaling: what rope_scaling, or rope_parameters, of a config.json makes of the frequencies of
// rotary positions, as transformers' modeling_rope_utils.py (5.24) computes it, in double:
//   llama3    wavelengths beyond original_max_position_embeddings / low_freq_factor are stretched
//             by factor, those below it / high_freq_factor stay, and between them the change is
//             smooth
//   yarn      pairs that turn beta_fast times or more within the original positions stay, those
//             that turn beta_slow times or less are divided by factor, and a ramp lies between
//             them; queries and keys are multiplied by attention_factor or
//             0.1 mscale ln(factor) + 1 (Peng et al.: arXiv:2309.00071)
//   longrope  a factor for each pair (Ding et al.: arXiv:2402.13753)
#pragma once

#include <cstdint>

#include "base/json_object.h"

namespace mt {

struct ModelConfig;

class RopeScaling {
 public:
  // The scaling, the whole config.json, and the model that is read so far: heads, positions and
  // the base of its frequencies.  All must outlive it.
  RopeScaling(const JsonObject& rope, const JsonObject& config, const ModelConfig& model)
      : rope_(rope), config_(config), model_(model) {}

  // Whether llama3's numbers are Llama 3.1's, which --use-rope-scaling has.
  bool is_llama3() const;
  void set_llama3(ModelConfig& model) const;
  void set_yarn(ModelConfig& model) const;
  void set_longrope(ModelConfig& model) const;  // of texts within the original positions
  std::int64_t original_positions() const;

 private:
  double real_or(const char* name, double other) const;
  double factor_or_ratio() const;
  std::vector<double> factors(const char* name) const;

  const JsonObject& rope_;
  const JsonObject& config_;
  const ModelConfig& model_;
};

}  // namespace mt
