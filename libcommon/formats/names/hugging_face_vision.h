// What rows of a Vision Transformer, or of a tower of images, are called in Hugging Face's formats.
#pragma once

#include <vector>

#include "formats/names/foreign_name.h"

namespace mt {

// Empty of a row that has no place there.
std::vector<ForeignName> vit_names(const ModelConfig& vit, const Param& row);

}  // namespace mt
