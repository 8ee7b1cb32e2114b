#include "kernels/value_loss.h"

namespace mt::cpu {

template <class T>
void value_loss(const ValueTensors<T>& tensors, double clip) {
  for (std::int64_t i = 0; i < tensors.rows * tensors.tokens; ++i) tensors.judge(i, clip);
}

template void value_loss(const ValueTensors<float>&, double);
template void value_loss(const ValueTensors<double>&, double);

}  // namespace mt::cpu
