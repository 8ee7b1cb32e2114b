// EncoderConfig: what models with an encoder have beside their layers: a BERT, all of whose layers
// are one, and a T5, whose decoder's are num_layers.
#pragma once

#include <cstdint>

namespace mt {

struct EncoderConfig {
  bool bert_binary_head =
      true;  // BERT: types of tokens, a pooler and a head for the order of texts
  std::int64_t encoder_num_layers = 0;
  std::int64_t relative_attention_num_buckets = 32, relative_attention_max_distance = 128;
  bool scale_decoder_outputs = false;  // in Hugging Face's model, by 1 / sqrt(hidden_size)
};

}  // namespace mt
