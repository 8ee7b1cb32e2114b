// Activation-aware scales of weights (AWQ; Lin et al.: arXiv:2306.00978, as ModelOpt's awq_lite has
// them), found on a text:
//   a_j = mean |x_j| of an input,   w_j = mean over rows of |w_j| / max |w| of its group
//   s = clamp(a^p / w^(1 - p), 1e-4, 1e4),   s /= sqrt(max s min s)
// of the p in 0, .1, ..., 1 by which the squared error of W x over the text is least where the
// columns of W are multiplied by s before W is quantized, and x divided by it.
#pragma once

#include <vector>

#include "formats/calibration.h"

namespace mt {

// What multiplies the columns of a row whose groups are of four bits.
std::vector<float> awq_scales(const ModelSource& source, const Param& row,
                              const LayerInputs& inputs);

}  // namespace mt
