// What TensorRT-LLM's checkpoints call the tensors of a model, each of a linear layer [out, in]:
//   transformer.vocab_embedding, transformer.position_embedding, transformer.ln_f, lm_head
//   transformer.layers.N.input_layernorm, .post_layernorm
//   transformer.layers.N.attention.qkv     the queries of all heads, then the keys, then the values
//   transformer.layers.N.attention.dense
//   transformer.layers.N.mlp.fc, .mlp.gate, .mlp.proj   fc is what goes through the activation
// (NVIDIA/TensorRT-LLM: docs/source/architecture/checkpoint.md.)
#pragma once

#include <vector>

#include "formats/names/foreign_name.h"

namespace mt {

struct ModelConfig;

// What of a tensor lies on one of several ranks: all of it; so many of its rows, or of its columns;
// of attention.qkv the rows of its heads, where ranks that are more than there are keys have copies
// of these; or of a vocabulary, which is padded with zeros to a multiple of the ranks, its rows.
enum class TrtllmShare : std::uint8_t { all, rows, columns, heads, words };

struct TrtllmName : ForeignName {
  TrtllmShare share = TrtllmShare::all;
};

// The tensors of a row.  Exit::bad_config for a row that has no place there.
std::vector<TrtllmName> trtllm_names(const ModelConfig& config, const Param& row);

}  // namespace mt
