// Weights that hold a NaN or an infinity: nothing can be learnt or said with them.
#pragma once

#include <string>

#include "tensor/param.h"

namespace mt {

// A line that says so of a row, read from the model at `path`, and what to do; "" where all its
// elements are finite.  `value` is in host memory.
std::string non_finite_text(const std::string& path, const Param& row, ConstTensor value);

// Exit::bad_data with that line, where there is one.
void check_finite(const std::string& path, const Param& row, ConstTensor value);

}  // namespace mt
