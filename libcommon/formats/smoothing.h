// Scales of the columns of weights, found on a text, by whose inverse what they read is made, so
// that a model computes the same and its matrices, or their inputs, are quantized better.  A norm
// divides what queries, keys, values and the first layer of an MLP read; of the second layer that
// is done by the half of the first that has no gate, and of attention's output by the values, where
// each head has its own.
#pragma once

#include <functional>
#include <vector>

#include "formats/calibration.h"
#include "formats/smoothed_source.h"

namespace mt {

// What multiplies the columns of a row.
using FindScales = std::function<std::vector<float>(const Param& row, const LayerInputs& inputs)>;

// Tells what multiplies the weights of a GPT.  A norm, which will be of the type that `dtype_of`
// tells of its row, is rounded before columns are multiplied by what that leaves of it, and keeps a
// weight of which that would be nothing.
RowFactorsByName smoothing_factors(const ModelSource& source, const Calibration& calibration,
                                   const std::function<DType(const Param&)>& dtype_of,
                                   const FindScales& find);

// SmoothQuant's (Xiao et al.: arXiv:2211.10438, eq. 4, with a half): of the largest |x_j| of an
// input and the largest |w_j| of its column
//   s_j = sqrt(max |x_j| / max |w_j|), within [1e-4, 1e4], and 1 where either is zero
// so that both have one range, which the formats of eight bits share between them.
std::vector<float> smooth_quant_scales(const ModelSource& source, const Param& row,
                                       const LayerInputs& inputs);

// A row's value.
std::vector<float> matrix_of(const ModelSource& source, const Param& row);

}  // namespace mt
