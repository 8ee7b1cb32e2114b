#include "kernels/cuda_check.h"
#include "kernels/update.h"

namespace mt::cuda {
namespace {

__global__ void decide_kernel(StepRecord* records, int count, StepOutcome* outcome,
                              UpdateRules rules) {
  mt::decide_update(records, count, *outcome, rules, sqrt(outcome->sum_squares));
}

}  // namespace

void decide_update(StepRecord* records, int count, StepOutcome* outcome, const UpdateRules& rules,
                   cudaStream_t stream) {
  decide_kernel<<<1, 1, 0, stream>>>(records, count, outcome, rules);
  check(cudaGetLastError());
}

}  // namespace mt::cuda
