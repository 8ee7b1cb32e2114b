#include "kernels/cuda_check.h"
#include "kernels/update.h"

namespace mt::cuda {
namespace {

__device__ void update_loss_scale(UpdateState& state, const UpdateRules& rules, bool overflow) {
  if (overflow) {
    state.growth = 0;
    state.hysteresis -= 1;
    if (state.hysteresis <= 0) state.loss_scale = fmax(state.loss_scale / 2, rules.min_loss_scale);
  } else if (++state.growth == rules.window) {
    state.growth = 0;
    state.hysteresis = rules.hysteresis;
    state.loss_scale *= 2;
  }
}

__global__ void prepare_kernel(StepRecord* record, UpdateState* state, const double* sum_squares,
                               const double* divisor, UpdateRules rules) {
  const double factor = *divisor * state->loss_scale, norm = sqrt(*sum_squares) / factor;
  const bool overflow = !isfinite(norm);
  state->grad_norm = norm;
  state->skipped = overflow;
  if (rules.dynamic_loss_scale) update_loss_scale(*state, rules, overflow);
  if (overflow) return;
  const auto step = static_cast<double>(++state->steps);
  record->bias_correction1 = 1 - pow(rules.beta1, step);
  record->bias_correction2 = 1 - pow(rules.beta2, step);
  const double clip = rules.clip_grad > 0 ? rules.clip_grad / (norm + 1e-6) : 1;
  record->gradient_scale = fmin(clip, 1.0) / factor;
}

}  // namespace

void prepare_update(StepRecord* record, UpdateState* state, const double* sum_squares,
                    const double* divisor, const UpdateRules& rules, cudaStream_t stream) {
  prepare_kernel<<<1, 1, 0, stream>>>(record, state, sum_squares, divisor, rules);
  check(cudaGetLastError());
}

}  // namespace mt::cuda
