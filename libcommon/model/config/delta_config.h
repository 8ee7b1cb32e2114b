// DeltaConfig: layers with the gated delta rule in the place of attention.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mt {

inline constexpr const char* kGatedDeltaNet = "gated_delta_net";

struct DeltaConfig {
  std::optional<std::string> experimental_attention_variant;  // kGatedDeltaNet, if any layer may
  std::string linear_attention_freq;                          // see linear_layers()
  std::int64_t linear_conv_kernel_dim = 4;                    // tokens of a convolution
  std::int64_t linear_key_head_dim = 128, linear_value_head_dim = 128;
  std::int64_t linear_num_key_heads = 16, linear_num_value_heads = 32;

  bool may_have_linear_layers() const { return experimental_attention_variant.has_value(); }
  // Of each layer whether it has the rule: linear_attention_freq is N, by which all but every Nth
  // do, or a list as Python has it, ([1]*3+[0])*12 say.  Exit::bad_config where it is neither.
  std::vector<bool> linear_layers(std::int64_t layers) const;
  // Checks what must fit together in a model whose matrices so many ranks share, and says the
  // layers shortest: by a number, or a list of each layer's 0 or 1.
  void complete_delta(std::int64_t layers, std::int64_t ranks);
  bool operator==(const DeltaConfig&) const = default;

 private:
  void check_unused() const;
};

}  // namespace mt
