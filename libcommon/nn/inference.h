// Inference: the Step of a forward that keeps nothing and has no gradients.
#pragma once

#include "nn/step.h"
#include "nn/weight_grads.h"
#include "tensor/arena.h"

namespace mt {

struct Inference {
  Arena unused;
  WeightGrads none;
  Step step;

  // positions: [tokens] i32, of all sequences.
  Inference(Stream& stream, Arena& layer, DType dtype, std::int64_t sequences,
            const ConstTensor& positions)
      : step{.stream = stream,
             .keep = unused,
             .layer = layer,
             .deferred = unused,
             .weight_grads = none,
             .dtype = dtype,
             .tokens = {.sequences = sequences,
                        .length = positions.numel() / sequences,
                        .positions = positions}} {}
  Inference(const Inference&) = delete;  // the step refers to it
  Inference& operator=(const Inference&) = delete;
};

}  // namespace mt
