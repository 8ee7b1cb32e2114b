// EncoderConfig: what models with an encoder have beside their layers: a BERT, all of whose layers
// are one, and a T5, whose decoder's are num_layers.
#pragma once

#include <cstdint>
#include <optional>

namespace mt {

struct EncoderConfig {
  // BERT: a head for the order of texts, which reads what a pooler makes; and, where nothing else
  // is said of them, two types of tokens.
  bool bert_binary_head = true;
  std::optional<std::int64_t> num_token_types;
  bool bert_pooler = false;  // a pooler without that head
  bool bert_lm_head = true;  // a head for masked words
  std::int64_t encoder_num_layers = 0;
  std::int64_t relative_attention_num_buckets = 32, relative_attention_max_distance = 128;
  bool scale_decoder_outputs = false;  // in Hugging Face's model, by 1 / sqrt(hidden_size)

  std::int64_t token_types() const { return num_token_types.value_or(bert_binary_head ? 2 : 0); }
  bool has_pooler() const { return bert_binary_head || bert_pooler; }
};

}  // namespace mt
