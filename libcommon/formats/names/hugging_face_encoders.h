// What rows of BERTs and T5s are called in Hugging Face's formats.
#pragma once

#include <vector>

#include "formats/names/foreign_name.h"

namespace mt {

// Each is empty of a row that has no place there.
std::vector<ForeignName> bert_names(const ModelConfig& bert, const Param& row);
std::vector<ForeignName> t5_names(const ModelConfig& t5, const Param& row);

}  // namespace mt
