// EncoderConfig: what a T5 has beside its decoder, whose layers are num_layers.
#pragma once

#include <cstdint>

namespace mt {

struct EncoderConfig {
  std::int64_t encoder_num_layers = 0;
  std::int64_t relative_attention_num_buckets = 32, relative_attention_max_distance = 128;
  bool scale_decoder_outputs = false;  // in Hugging Face's model, by 1 / sqrt(hidden_size)
};

}  // namespace mt
