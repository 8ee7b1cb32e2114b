// What Hugging Face's transformers call the tensors of a model: GPT-2, whose matrices are stored
// [in, out], Llama and those like it, GPT-NeoX and other decoders, Mixtral, Megatron's BERT,
// nemotron_h, T5 and ViT.
#pragma once

#include <string_view>
#include <vector>

#include "formats/names/foreign_name.h"

namespace mt {

struct ModelConfig;

inline constexpr const char* kHuggingFaceFormat = "hf";

// The model_type of a decoder that no GPT-2, Llama, Mistral, Mixtral, Qwen or Nemotron is; empty:
// it may be one of these, or of another family.
std::string_view hugging_face_type(const ModelConfig& config);

// Returns the tensors that a row consists of; none if their model computes as if it were zero.  A
// row that has no place there is Exit::bad_data.
std::vector<ForeignName> hugging_face_names(const ModelConfig& config, const Param& row);

// Returns the tensors that hold all of a row once more: layers that predict further tokens have the
// words and the output layer for their own.
std::vector<std::string> hugging_face_copies(const ModelConfig& config, const Param& row);

// Returns the shape of such a tensor; a vocabulary is not padded there.
Shape hugging_face_shape(const Param& row, const ForeignName& name, const ModelConfig& config);

// What a row of an expert is a part of in a model that reads images, too: a tensor of all experts
// of a layer, each transposed or as it is.
ForeignName fused_expert_name(const Param& row, bool transposed);

}  // namespace mt
