// MlpConfig: the width of a layer's MLP, its activation, and whether linear layers have biases.
#pragma once

#include <cstdint>
#include <optional>

namespace mt {

enum class Activation : std::uint8_t;  // nn/activation.h

struct MlpConfig {
  std::optional<std::int64_t> ffn_hidden_size;  // by default ffn(hidden_size)
  bool swiglu = false, squared_relu = false;
  bool relu = false;        // T5's
  bool gated_gelu = false;  // GeLU in its tanh form
  bool xielu = false;       // kernels/xielu.h
  bool tanh_gelu = false;   // GeLU in its tanh form, without biases, too
  bool quick_gelu = false;  // x sigmoid(1.702 x), of a CLIP
  // x sigmoid(1.702 x) gates: kernels/activation.h's clamped, with this limit and this offset.
  bool quick_geglu = false;
  double activation_func_clamp_value = 0, glu_linear_offset = 0;
  bool bias_gelu_fusion =
      true;  // only chooses the GeLU's form: tanh if on and there are biases, else erf
  bool add_bias_linear = true;

  void check() const;

  std::int64_t ffn(std::int64_t hidden_size) const;  // 4 h, or int(4 h 2/3 / 64) 64 with SwiGLU
  bool fuses_bias_and_gelu() const { return bias_gelu_fusion && add_bias_linear; }
  bool is_gated() const { return swiglu || gated_gelu || quick_geglu; }
  Activation activation() const;
};

}  // namespace mt
