// A model's settings as Megatron's argument namespace has them, in a checkpoint's common state.
// What Megatron-LM's command line has not is called as in its TransformerConfig: GeGLU is
// gated_linear_unit, ReLU activation_func.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ckpt/pickle.h"
#include "tensor/dtype.h"

namespace mt {

enum class ModelFamily : std::uint8_t;
struct ModelConfig;

// Appends the attributes that describe the model.
void add_model_args(const ModelConfig& config, DType dtype, PyValue& args);

// The reverse, of a model of this family; Exit::bad_data; completed.
ModelConfig model_config_of(const PyValue& args, ModelFamily family, const std::string& where);
// `has_tensor` tells whether the checkpoint has a tensor of this name, from which a BERT and a T5
// are known.
ModelConfig model_config_of(const PyValue& args,
                            const std::function<bool(const std::string&)>& has_tensor,
                            const std::string& where);
DType dtype_of_args(const PyValue& args, const std::string& where);

}  // namespace mt
