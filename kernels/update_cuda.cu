#include "kernels/cuda_check.h"
#include "kernels/update.h"

namespace mt::cuda {
namespace {

__global__ void decide_kernel(StepRecord* records, int count, StepOutcome* outcome,
                              UpdateRules rules) {
  const double divisor = rules.divisor != 0 ? rules.divisor : fmax(1.0, outcome->tokens);
  const double factor = divisor * outcome->loss_scale.scale,
               norm = sqrt(outcome->sum_squares) / factor;
  const bool ended =
      rules.all_finite && (outcome->skipped != 0 || !isfinite(outcome->loss / outcome->tokens));
  const bool after_skipped = outcome->skipped != 0;
  const double clip = rules.clip_grad > 0 ? rules.clip_grad / (norm + 1e-6) : 1;
  outcome->grad_norm = norm;
  outcome->skipped = ended || !isfinite(norm) ? 1 : 0;
  go_on(outcome->loss_scale, rules.loss_scale, outcome->skipped != 0);
  for (int i = 0; i < count; ++i) {
    if (after_skipped) records[i] = records[count + i];
    records[i].gradient_scale = outcome->skipped != 0 ? 0 : fmin(clip, 1.0) / factor;
  }
}

}  // namespace

void decide_update(StepRecord* records, int count, StepOutcome* outcome, const UpdateRules& rules,
                   cudaStream_t stream) {
  decide_kernel<<<1, 1, 0, stream>>>(records, count, outcome, rules);
  check(cudaGetLastError());
}

}  // namespace mt::cuda
