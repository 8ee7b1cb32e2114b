// kernels/update.h: what a step on the GPU does between its gradients and the optimizer, without
// the host: the norm, the loss scale and whether the step is skipped stay on the device.
// With factor = divisor loss_scale and norm = sqrt(sum of squares) / factor:
//   norm not finite    skipped = 1; the loss scale falls as LossScale::update(overflow) says
//   else               gradient_scale = min(1, clip / (norm + 1e-6)) / factor, clip 0: 1 / factor
//                      steps += 1, bias_correction = 1 - beta^steps, and the loss scale may rise
// (1e-6 as in Megatron's clip_grad_by_total_norm_fp32.)
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"
#include "kernels/step_record.h"

namespace mt {

// Consecutive elements of flat buffers that share their multipliers: element i is first + i of the
// parameters, first + gradient_shift + i of their gradients, state + i of what is remembered of
// them.  On a GPU one block works on a chunk: cut parameters into chunks of at most kUpdateChunk
// elements.
struct UpdateChunk {
  std::int64_t first = 0, state = 0, count = 0;
  double lr_mult = 1, decay_mult = 1;
  std::int64_t gradient_shift = 0;
};
inline constexpr std::int64_t kUpdateChunk = 4096;

// Lives on the device, from step to step.
struct UpdateState {
  double loss_scale = 1;
  std::int64_t growth = 0, hysteresis = 0;  // of a dynamic loss scale (LossScale::State)
  std::int64_t steps = 0;                   // that were not skipped
  double grad_norm = 0;                     // of the last step: averaged, unscaled, before clipping
  std::int32_t skipped = 0;                 // whether the last step was
};

struct UpdateRules {
  double clip_grad = 0;  // largest norm; 0: not clipped
  double beta1 = 0, beta2 = 0;
  bool dynamic_loss_scale = false;
  double min_loss_scale = 1;
  std::int64_t window = 1000, hysteresis = 2;
};

}  // namespace mt

// sum_squares and divisor lie on the device too.
namespace mt::cuda {
void prepare_update(StepRecord* record, UpdateState* state, const double* sum_squares,
                    const double* divisor, const UpdateRules& rules, cudaStream_t stream);
}
