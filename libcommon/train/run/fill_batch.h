// The samples of a run as a model reads them.
#pragma once

#include "data/samples/train_data.h"
#include "model/model.h"

namespace mt {

// Fills `batch` with the run's samples [first, first + sequences): tokens, labels, positions, first
// keys where it has them, and the mask.  Padding is a sample whose mask is 0.  Returns the sum of
// the mask: the tokens that count.
double fill_batch(const SampleSet& set, std::int64_t first, std::int64_t sequences,
                  const Batch& batch);

// row_weight = mask x weight
void weigh_rows(const Batch& batch, double weight);

}  // namespace mt
