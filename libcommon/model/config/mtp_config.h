// MtpConfig: layers behind a GPT's last that predict further tokens than the next one (DeepSeek-AI:
// arXiv:2412.19437, section 2.2), as Megatron-Core has them (core_v0.12.1,
// core/transformer/multi_token_prediction.py).
#pragma once

#include <cstdint>

namespace mt {

inline constexpr std::int64_t kMostFurther = 7;  // each has a loss by name (kMostLosses)

inline constexpr const char* kFurtherStack = "mtp";  // what names of their rows begin with

struct MtpConfig {
  std::int64_t mtp_num_layers = 0;  // the i-th, from 1, predicts the token i behind the next one
  double mtp_loss_scaling_factor = 0.1;  // what the mean of their losses weighs in the objective
};

}  // namespace mt
