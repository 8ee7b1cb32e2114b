#include "kernels/update.h"

#include <algorithm>
#include <cmath>

namespace mt::cpu {

void decide_update(StepRecord* records, int count, StepOutcome* outcome, const UpdateRules& rules) {
  const double divisor = rules.divisor != 0 ? rules.divisor : std::max(1.0, outcome->tokens);
  const double factor = divisor * outcome->loss_scale.scale,
               norm = std::sqrt(outcome->sum_squares) / factor;
  const bool ended = rules.all_finite &&
                     (outcome->skipped != 0 || !std::isfinite(outcome->loss / outcome->tokens));
  const bool after_skipped = outcome->skipped != 0;
  const double clip = rules.clip_grad > 0 ? rules.clip_grad / (norm + 1e-6) : 1;
  outcome->grad_norm = norm;
  outcome->skipped = ended || !std::isfinite(norm) ? 1 : 0;
  go_on(outcome->loss_scale, rules.loss_scale, outcome->skipped != 0);
  for (int i = 0; i < count; ++i) {
    if (after_skipped) records[i] = records[count + i];
    records[i].gradient_scale = outcome->skipped != 0 ? 0 : std::min(clip, 1.0) / factor;
  }
}

}  // namespace mt::cpu
