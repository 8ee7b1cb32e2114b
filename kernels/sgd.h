// kernels/sgd.h: one step of stochastic gradient descent with momentum and L2 decay, in the form of
// torch.optim.SGD.  With g scaled by record->gradient_scale:
//   b = momentum b + g + decay p      p -= lr b
// lr = record->learning_rate lr_mult;  decay = record->weight_decay decay_mult.  p, b, g: [count].
// T: float or double.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"
#include "kernels/step_record.h"
#include "kernels/update.h"

namespace mt::cpu {
template <class T>
void sgd(T* p, T* b, const T* g, std::int64_t count, double momentum, double lr_mult,
         double decay_mult, const StepRecord* record);
}

// The pointers are as in cuda::adam() (kernels/adam.h).
namespace mt::cuda {
template <class T, class G>
void sgd(float* p, float* b, T* copy, const G* g, const UpdateChunk* chunks,
         std::int64_t chunk_count, double momentum, const StepRecord* record, cudaStream_t stream);
}
