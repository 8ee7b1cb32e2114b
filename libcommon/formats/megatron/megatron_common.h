// The common state of a Megatron checkpoint that is made of another checkpoint.
#pragma once

#include <functional>

#include "ckpt/hashed_file.h"
#include "ckpt/torch_file.h"
#include "formats/model_sink.h"

namespace mt {

// Keeps a tensor in a file and gives the value that stands for it there.
using KeepTensor = std::function<PyValue(ConstTensor)>;

// The value, with the tensors of `reader` that it refers to kept elsewhere.
PyValue copied_value(const PyValue& value, const TorchReader& reader, const KeepTensor& keep);

// A dict: what the source's common state holds, or, of a source without one, what loading needs;
// `args` describe the target.  Of an optimizer there is nothing.
PyValue make_common(const ModelTarget& target, const std::string& format, const KeepTensor& keep);
// The optimizer of the source's common state, which there must be.
PyValue copied_optimizer(const ModelSource& source, const KeepTensor& keep);

// Copies what travels with the source into FOLDER/tokenizer.
std::vector<FileHash> write_companions(const ModelSource& source, const std::string& folder);

// What a manifest says of the source's tokenizer, whose files were written there.
std::string manifest_extra_of(const ModelSource& source, const std::string& folder);

// 0 for a release: weights that no run is to go on from.
std::int64_t iteration_of(const ModelSource& source);

}  // namespace mt
