// What Megatron's models from before Megatron-Core (formats/megatron/legacy_classes.h) call a row.
#pragma once

#include <string>

#include "tensor/param.h"

namespace mt {

struct ModelConfig;

// Returns the keys of the dicts in one another that lead to a row, and its name in the last one:
// language_model/encoder/layers.0.input_norm.weight.  The layer's number is the chunk's.  A tied
// model's output_layer.weight is the copy that its last stage has.
std::string megatron_legacy_name(const ModelConfig& config, const RowPlace& place);

// Returns that name with dots instead of slashes and without language_model, for a comparison with
// names in files.
std::string plain_legacy_name(const ModelConfig& config, const RowPlace& place);

// Returns the plain name of the tensor at a path in a file, as the last of these classes called it.
// Older ones said transformer for encoder, attention for self_attention and layernorm for norm.
std::string plain_legacy_name(std::string path);

}  // namespace mt
