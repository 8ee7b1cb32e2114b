// What transformers call the tensors of a layer with the gated delta rule.
#pragma once

#include <string>
#include <vector>

#include "formats/names/foreign_name.h"

namespace mt {

// None where a row is of something else.  `layer`: what names of its layer begin with.
std::vector<ForeignName> delta_names(const ModelConfig& config, const Param& row,
                                     const std::string& layer);

}  // namespace mt
