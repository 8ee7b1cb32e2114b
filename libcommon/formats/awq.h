// Activation-aware scales of weights (AWQ; Lin et al.: arXiv:2306.00978, as ModelOpt's awq_lite has
// them), found on a text:
//   a_j = mean |x_j| of an input,   w_j = mean over rows of |w_j| / max |w| of its group
//   s = clamp(a^p / w^(1 - p), 1e-4, 1e4),   s /= sqrt(max s min s)
// of the p in 0, .1, ..., 1 by which the squared error of W x over the text is least where the
// columns of W are multiplied by s before W is quantized, and x divided by it.  A norm divides what
// queries, keys, values and the first layer of an MLP read; of the second layer that is done by the
// half of the first that has no gate, and of attention's output by the values, where each head has
// its own.
#pragma once

#include <cstdint>
#include <string>

#include "base/log.h"
#include "formats/smoothed_source.h"

namespace mt {

struct CalibrationOptions {
  std::string text;                           // a file
  std::int64_t size = 512, seq_length = 512;  // sequences at most, and tokens of each
};

// Tells what multiplies the weights of a model, of a GPT.  Exit::bad_config for a model without a
// tokenizer; Exit::bad_data for a file whose beginning is no text of a whole sequence, and for a
// model whose weights are not finite, or what its layers read.
RowFactorsByName awq_factors(const ModelSource& source, const CalibrationOptions& options,
                             const Log& log);

}  // namespace mt
