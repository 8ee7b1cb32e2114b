// The adapters that a run trains, as a folder of PEFT's in its checkpoint's own (formats/peft).
#pragma once

#include <string>
#include <vector>

#include "ckpt/dist_checkpoint.h"
#include "optim/optimizer.h"

namespace mt {

struct ModelConfig;

// Called on all ranks, with the rows of the whole model and which of its own rows a rank writes.
// Writes the files on the first rank, and returns them there.
std::vector<WrittenFile> write_adapters(const std::string& folder, const ModelConfig& config,
                                        const ParamTable& whole, Optimizer& optimizer,
                                        const std::vector<bool>& mine, Group& ranks,
                                        Stream& stream);

}  // namespace mt
