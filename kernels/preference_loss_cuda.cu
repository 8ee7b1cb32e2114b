#include "kernels/preference_loss.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

template <class X>  // one block, because z is of all units
__global__ __launch_bounds__(kThreads) void preference_loss_kernel(
    PreferenceTensors<X, float> tensors, PreferenceRules rules) {
  __shared__ double shared[2][kThreads / 32];
  double z = 0, others = 0;
  if (rules.has_single_texts()) {
    for (std::int64_t i = threadIdx.x; i < tensors.units; i += kThreads) {
      z += tensors.rho_of_other(i);
      others += tensors.share[i] > 0 ? 1 : 0;
    }
    z = over_block(z, shared[0]);
    others = over_block(others, shared[1]);
    z = fmax(0.0, z / fmax(1.0, others));
    __syncthreads();  // all have read x, which is written over now
  }
  for (std::int64_t i = threadIdx.x; i < tensors.units; i += kThreads) tensors.judge(i, rules, z);
}

}  // namespace

template <class X>
void preference_loss(const PreferenceTensors<X, float>& tensors, const PreferenceRules& rules,
                     cudaStream_t stream) {
  if (tensors.units == 0) return;
  preference_loss_kernel<<<1, kThreads, 0, stream>>>(tensors, rules);
  check(cudaGetLastError());
}

#define INSTANTIATE(X)                                                                      \
  template void preference_loss(const PreferenceTensors<X, float>&, const PreferenceRules&, \
                                cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
