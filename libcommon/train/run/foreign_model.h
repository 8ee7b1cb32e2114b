// What --load may name beside checkpoints of runs: a model's folder of Hugging Face's or Meta's, a
// GGUF file, or a checkpoint of Megatron Bridge's, of which a run takes the weights, as of a
// conversion to our own format.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "formats/model_source.h"

namespace mt {

// Such a model there, and no checkpoint of a run; empty: none.  Of Megatron Bridge's it is the
// folder of an iteration, `step` or the last; others have none.  Exit::bad_config for NeMo's, which
// are not read.
std::string find_foreign_model(const std::string& path, std::optional<std::int64_t> step);

// Fills a rank's part of a row with the model's values.  Where the run has more `words` than the
// model, those rows of the vocabulary become the mean of the model's.
void read_part(const ModelSource& source, const Param& row, std::int64_t words, Tensor out);
// Fills a rank's part of a row, in host memory, from all of it.
void copy_part(const Param& row, ConstTensor whole, Tensor out);

}  // namespace mt
