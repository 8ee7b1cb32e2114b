// The rows of a model of any family: those of its modules, and, of families that are converted and
// not computed with, the same list of modules' rows without them.
#pragma once

#include "model/tensor_part.h"
#include "tensor/param.h"

namespace mt {

struct ModelConfig;

// All rows of the model, as one of so many tensor-parallel ranks has them.
ParamTable model_rows(const ModelConfig& config, const TensorPart& part = {});

}  // namespace mt
