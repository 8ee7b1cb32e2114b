// kernels/update.h: what an optimizer's rules go by on the GPU: which elements share what
// multipliers, and what is decided of a step where its gradients lie, so that nobody waits for the
// host:
//   factor = loss_scale.scale divisor      grad_norm = sqrt(sum_squares) / factor
//   skipped = grad_norm is not finite;  with `all_finite` also if a loss's mean is not, or if the
//             step before was skipped
//   gradient_scale = min(1, clip_grad / (grad_norm + 1e-6)) / factor;  clip_grad 0: 1 / factor;
//                    skipped: 0, at which the rules leave everything as it is
// (1e-6 as in Megatron's clip_grad_by_total_norm_fp32), and the loss scale of the next step, if it
// is dynamic (Megatron's DynamicGradScaler):
//   skipped    growth = 0; hysteresis -= 1; if hysteresis <= 0: scale = max(scale / 2, least)
//   else       growth += 1; if growth = window: growth = 0; hysteresis = its start; scale *= 2
// so that after the first halving every further overflow halves too, until `window` steps went
// well.  Not doubled is a scale that would be more than fp32 can hold, in which a checkpoint keeps
// it: Megatron's becomes infinity, whose half is infinity too.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cuda_types.h"
#include "kernels/step_record.h"

namespace mt {

// Consecutive elements of flat buffers that share their multipliers: element i is first + i of the
// parameters, first + gradient_shift + i of their gradients, state + i of what is remembered of
// them.  They are elements of parameter `piece`.  On a GPU one block works on a chunk: cut
// parameters into chunks of at most kUpdateChunk elements.
struct UpdateChunk {
  std::int64_t first = 0, state = 0, count = 0;
  double lr_mult = 1, decay_mult = 1;
  std::int64_t gradient_shift = 0, piece = 0;
};
inline constexpr std::int64_t kUpdateChunk = 4096;

struct LossScaleState {
  double scale = 1;
  std::int64_t growth = 0, hysteresis = 0;
};
struct LossScaleRule {
  bool dynamic = false;
  double least = 1;
  std::int64_t window = 1000, hysteresis = 2;
};
constexpr void go_on(LossScaleState& state, const LossScaleRule& rule, bool overflow) {
  if (!rule.dynamic) return;
  if (overflow) {
    state.growth = 0;
    state.hysteresis -= 1;
    if (state.hysteresis <= 0) state.scale = std::max(state.scale / 2, rule.least);
  } else if (++state.growth == rule.window) {
    state.growth = 0;
    state.hysteresis = rule.hysteresis;
    if (state.scale <= std::numeric_limits<float>::max() / 2) state.scale *= 2;
  }
}

inline constexpr int kRequests = 6;    // that ranks may make with a step (train/run/interruption.h)
inline constexpr int kMostLosses = 8;  // that a step may have by name (train/run/objective.h)

// LossSum: the sum of a loss's values, and how many they are.  Where none counts, the mean is 0.
struct LossSum {
  double sum = 0, count = 0;
  constexpr double mean() const { return sum == 0 ? 0 : sum / count; }
};

// StepOutcome: what comes of a step; it lies on the device, from step to step.
struct StepOutcome {
  double zeros = 0;                  // elements of all ranks' gradients, if they are counted
  double grad_norm = 0;              // of the averaged, unscaled gradient, before clipping
  double sum_squares = 0;            // of the sum of all ranks' gradients
  double requests[kRequests] = {};   // sums over all ranks of what each asks for
  LossSum losses[kMostLosses] = {};  // sums over the micro-batches of all ranks
  LossScaleState loss_scale;         // of the next step, and before this one of it
  std::int32_t skipped = 0;          // nothing is updated
};

struct UpdateRules {
  LossScaleRule loss_scale;
  int losses = 1;           // that the step has
  double divisor = 1;       // of the sum of all ranks' gradients; 0: the first loss's count
  double clip_grad = 0;     // largest norm; 0: not clipped
  bool all_finite = false;  // a step that is not ends all updates
};

// Completes the outcome from its sums, of which `root` is the square root of the sum of squares,
// and with it `count` records, which are those of a step after one that was not skipped, or, if it
// was, become those that follow them.
constexpr void decide_update(StepRecord* records, int count, StepOutcome& outcome,
                             const UpdateRules& rules, double root) {
  const double divisor =
      rules.divisor != 0 ? rules.divisor : std::max(1.0, outcome.losses[0].count);
  const double factor = divisor * outcome.loss_scale.scale, norm = root / factor;
  const bool after_skipped = outcome.skipped != 0;
  bool ended = rules.all_finite && after_skipped;
  for (int i = 0; i < rules.losses; ++i)
    ended |= rules.all_finite && !std::isfinite(outcome.losses[i].mean());
  const bool skipped = ended || !std::isfinite(norm);
  const double clip = rules.clip_grad > 0 ? rules.clip_grad / (norm + 1e-6) : 1;
  outcome.grad_norm = norm;
  outcome.skipped = skipped ? 1 : 0;
  go_on(outcome.loss_scale, rules.loss_scale, skipped);
  for (int i = 0; i < count; ++i) {
    if (after_skipped) records[i] = records[count + i];
    records[i].gradient_scale = skipped ? 0 : std::min(clip, 1.0) / factor;
  }
}

}  // namespace mt

// Completes an outcome and its records, as above, in the memory that they lie in.
namespace mt::cpu {
void decide_update(StepRecord* records, int count, StepOutcome* outcome, const UpdateRules& rules);
}
namespace mt::cuda {
void decide_update(StepRecord* records, int count, StepOutcome* outcome, const UpdateRules& rules,
                   cudaStream_t stream);
}
