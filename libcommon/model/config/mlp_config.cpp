#include "model/config/mlp_config.h"

#include "base/error.h"
#include "nn/mlp.h"

namespace mt {

void MlpConfig::check() const {
  if (squared_relu && swiglu) fail(Exit::bad_config, "--squared-relu: excludes --swiglu");
  if (gated_gelu && (swiglu || squared_relu))
    fail(Exit::bad_config, "--gated-linear-unit: excludes ",
         swiglu ? "--swiglu" : "--squared-relu");
  if (quick_geglu && (swiglu || squared_relu || gated_gelu))
    fail(Exit::bad_config, "--quick-geglu: excludes ",
         swiglu         ? "--swiglu"
         : squared_relu ? "--squared-relu"
                        : "--gated-linear-unit");
  if (!quick_geglu && (activation_func_clamp_value != 0 || glu_linear_offset != 0))
    fail(Exit::bad_config,
         "--activation-func-clamp-value, --glu-linear-offset: need --quick-geglu");
  if (xielu && (is_gated() || squared_relu || tanh_gelu || add_bias_linear))
    fail(Exit::bad_config,
         "--xielu: needs --disable-bias-linear, and excludes all other activations");
  if (tanh_gelu && (is_gated() || squared_relu))
    fail(Exit::bad_config, "--tanh-gelu: excludes all other activations");
  if (squared_relu && fuses_bias_and_gelu())
    fail(Exit::bad_config,
         "--squared-relu: needs --no-bias-gelu-fusion or --disable-bias-linear, as in Megatron-LM");
}

std::int64_t MlpConfig::ffn(std::int64_t hidden_size) const {
  if (ffn_hidden_size) return *ffn_hidden_size;
  return swiglu ? static_cast<std::int64_t>(static_cast<double>(4 * hidden_size) * 2 / 3) / 64 * 64
                : 4 * hidden_size;
}

Activation MlpConfig::activation() const {
  if (swiglu) return Activation::swiglu;
  if (gated_gelu) return Activation::geglu;
  if (relu) return Activation::relu;
  if (squared_relu) return Activation::squared_relu;
  if (xielu) return Activation::xielu;
  if (quick_gelu) return Activation::gelu_quick;
  return tanh_gelu || fuses_bias_and_gelu() ? Activation::gelu_tanh : Activation::gelu_erf;
}

}  // namespace mt
