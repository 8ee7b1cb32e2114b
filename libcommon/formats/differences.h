// The differences of two checkpoints: what `mt-convert diff` prints.
#pragma once

#include <string>

#include "formats/inspect.h"

namespace mt {

// Compares two checkpoints: tensors of the same name, or, of the torch format, and where formats or
// the padding of the vocabulary differ, rows of the model's table, and the optimizer's state of
// them where both have one.  Prints what differs by more than `tolerance`, or is in one of the two
// only; a NaN equals a NaN.  Returns whether anything was printed.
bool print_differences(const InspectOptions& a, const std::string& b, double tolerance,
                       const PrintLine& print, const Log& log = {});

}  // namespace mt
