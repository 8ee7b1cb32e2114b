#include "kernels/update.h"

namespace mt::cpu {

void decide_update(StepRecord* records, int count, StepOutcome* outcome, const UpdateRules& rules) {
  mt::decide_update(records, count, *outcome, rules, std::sqrt(outcome->sum_squares));
}

}  // namespace mt::cpu
