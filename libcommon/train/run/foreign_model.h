// What --load may name beside checkpoints of runs: a model's folder of Hugging Face's or Meta's, or
// a GGUF file, of which a run takes the weights, as of a conversion to our own format.
#pragma once

#include <memory>
#include <string>

#include "formats/model_source.h"

namespace mt {

// Whether there is a model of others', and no checkpoint of a run.  Exit::bad_config for a folder
// of NeMo's or Megatron Bridge's, which is not read.
bool is_foreign_model(const std::string& path);

// Fills a rank's part of a row with the model's values.
void read_part(const ModelSource& source, const Param& row, Tensor out);

}  // namespace mt
