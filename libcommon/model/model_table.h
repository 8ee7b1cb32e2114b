// A model of any family, and its rows: those of its modules, and, of families that are converted
// and not computed with, the same list of modules' rows without them.
#pragma once

#include <memory>

#include "model/stage_range.h"
#include "model/tensor_part.h"
#include "tensor/param.h"

namespace mt {

class Model;
struct ModelConfig;

// Some stages of a model, as one of so many tensor-parallel ranks has them.  Exit::internal where
// its family is converted alone.
std::unique_ptr<Model> make_model(const ModelConfig& config, const StageRanges& stages,
                                  const TensorPart& part = {});

// All rows of the model, as one of so many tensor-parallel ranks has them.
ParamTable model_rows(const ModelConfig& config, const TensorPart& part = {});

}  // namespace mt
