// kernels/value_loss.h: how far what is said of tokens' values is from what they turned out to be
// (arXiv:1707.06347, eq. 9; the bound is that of arXiv:2005.12729, 3).
//   c = clip(v, old - clip, old + clip), or v where clip is 0
//   loss = max((v - return)^2, (c - return)^2) / 2
//   x: [tokens], v; with `weight`, [tokens], it becomes weight[t] d loss[t] / d v[t]
//   loss: [2, tokens]: the loss; and 1 where it is that of c alone, of which v has no gradient; 0
//         where the mask is
//   returns: [rows, 2, tokens of a row]: return and old;  mask: [tokens]
// All is computed in f64.  T: float or double, on the CPU.
#pragma once

#include <cstdint>

namespace mt {

template <class T>
struct ValueTensors {
  T *loss = nullptr, *x = nullptr;
  const T *returns = nullptr, *mask = nullptr, *weight = nullptr;
  std::int64_t rows = 0, tokens = 0;  // tokens of a row
};

}  // namespace mt

namespace mt::cpu {
template <class T>
void value_loss(const ValueTensors<T>& tensors, double clip);
}  // namespace mt::cpu
