#include "model/config/delta_config.h"

#include <utility>

#include "base/error.h"
#include "base/python_list.h"
#include "kernels/causal_conv.h"
#include "model/config/ranges.h"

namespace mt {

constexpr const char *kFreq = "--linear-attention-freq",
                     *kVariant = "--experimental-attention-variant";

std::vector<bool> DeltaConfig::linear_layers(std::int64_t layers) const {
  std::vector<bool> all(static_cast<std::size_t>(layers));
  if (!may_have_linear_layers()) return all;
  const PythonList::Value value = PythonList(kFreq, linear_attention_freq).value();
  if (const auto* const every = std::get_if<0>(&value)) {
    if (*every < 1)
      fail(Exit::bad_config, kFreq, ' ', linear_attention_freq, ": expected at least 1");
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<std::int64_t>(i + 1) % *every != 0;
    return all;
  }
  const PythonList::List& list = std::get<1>(value);
  if (std::ssize(list) != layers)
    fail(Exit::bad_config, kFreq, ' ', linear_attention_freq, ": ", list.size(), " numbers for ",
         layers, " layers");
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (list[i] != 0 && list[i] != 1)
      fail(Exit::bad_config, kFreq, ' ', linear_attention_freq, ": has ", list[i],
           " for a layer, expected 0 or 1");
    all[i] = list[i] == 1;
  }
  return all;
}

void DeltaConfig::check_unused() const {
  const DeltaConfig usual;
  for (const auto& [differs, flag] :
       {std::pair{!linear_attention_freq.empty(), kFreq},
        std::pair{linear_conv_kernel_dim != usual.linear_conv_kernel_dim,
                  "--linear-conv-kernel-dim"},
        std::pair{linear_key_head_dim != usual.linear_key_head_dim, "--linear-key-head-dim"},
        std::pair{linear_value_head_dim != usual.linear_value_head_dim, "--linear-value-head-dim"},
        std::pair{linear_num_key_heads != usual.linear_num_key_heads, "--linear-num-key-heads"},
        std::pair{linear_num_value_heads != usual.linear_num_value_heads,
                  "--linear-num-value-heads"}})
    if (differs) fail(Exit::bad_config, flag, ": needs ", kVariant, ' ', kGatedDeltaNet);
}

void DeltaConfig::complete_delta(std::int64_t layers, std::int64_t ranks) {
  if (!may_have_linear_layers()) return check_unused();
  if (linear_attention_freq.empty())
    fail(Exit::bad_config, kVariant, ' ', kGatedDeltaNet, ": needs ", kFreq);
  const std::vector<bool> linear = linear_layers(layers);
  if (linear_attention_freq.find_first_not_of("0123456789") != std::string::npos) {
    linear_attention_freq = "[";
    for (const bool is : linear) linear_attention_freq += is ? "1," : "0,";
    linear_attention_freq.back() = ']';
  }
  check_range("--linear-conv-kernel-dim", linear_conv_kernel_dim, between(1, kMostTaps));
  if (linear_num_value_heads % linear_num_key_heads != 0)
    fail(Exit::bad_config, "--linear-num-key-heads ", linear_num_key_heads, ": does not divide ",
         linear_num_value_heads, " value heads");
  if (linear_num_key_heads % ranks != 0)
    fail(Exit::bad_config, "--linear-num-key-heads ", linear_num_key_heads,
         ": not a multiple of tensor_model_parallel_size (", ranks, ")");
}

}  // namespace mt
