// RetroConfig: what a Retro (Borgeaud et al.: arXiv:2112.04426) has beside a GPT's layers, in the
// words of Megatron-LM core_v0.12.1's RetroConfig: a sequence is cut into chunks, for each of which
// neighbours were retrieved, texts of a chunk and those behind it.  An encoder in the first layer
// that retrieves reads them; chunked cross-attention in that layer and in every third behind it
// attends to what the encoder makes.
#pragma once

#include <cstdint>

namespace mt {

struct RetroConfig {
  std::int64_t retro_encoder_num_layers = 2;
  double retro_encoder_hidden_dropout = 0.1, retro_encoder_attention_dropout = 0.1;
  std::int64_t retro_num_neighbors = 2;         // of each chunk
  std::int64_t retro_num_retrieved_chunks = 2;  // that each neighbour is of
  std::int64_t retro_chunk_length = 64;
  // A GPT's final norm, which Megatron's Retro does not have.
  bool retro_final_layernorm = false;
  // What cross-attention in the decoder adds begins at 0, so that a model begins as a GPT.
  bool retro_zero_init = false;

  std::int64_t retrieved_length() const { return retro_num_retrieved_chunks * retro_chunk_length; }
  std::int64_t chunks(std::int64_t length) const {  // of a sequence
    return (length + retro_chunk_length - 1) / retro_chunk_length;
  }
  std::int64_t neighbor_tokens(std::int64_t length) const {  // of a sequence
    return chunks(length) * retro_num_neighbors * retrieved_length();
  }
};

// The first layer that retrieves, of so many, and whether one does; layers count from 0.
inline std::int64_t first_retro_layer(std::int64_t layers) { return layers <= 15 ? 5 : 8; }
inline bool is_retro_layer(std::int64_t layer, std::int64_t layers) {
  const std::int64_t first = first_retro_layer(layers);
  return layer >= first && layer < layers && (layer - first) % 3 == 0;
}
inline std::int64_t last_retro_layer(std::int64_t layers) {
  const std::int64_t first = first_retro_layer(layers);
  return first + (layers - 1 - first) / 3 * 3;
}

}  // namespace mt
