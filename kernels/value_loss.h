// kernels/value_loss.h: how far what is said of tokens' values is from what they turned out to be
// (arXiv:1707.06347, eq. 9; the bound is that of arXiv:2005.12729, 3).
//   c = clip(v, old - clip, old + clip), or v where clip is 0
//   loss = max((v - return)^2, (c - return)^2) / 2
//   x: [tokens], v; with `weight`, [tokens], it becomes weight[t] d loss[t] / d v[t]
//   loss: [2, tokens]: the loss; and 1 where it is that of c alone, of which v has no gradient; 0
//         where the mask is
//   returns: [rows, 2, tokens of a row]: return and old;  mask: [tokens]
// All is computed in f64.  T: float or double; on the GPU float.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {

template <class T>
struct ValueTensors {
  T *loss = nullptr, *x = nullptr;
  const T *returns = nullptr, *mask = nullptr, *weight = nullptr;
  std::int64_t rows = 0, tokens = 0;  // tokens of a row

  // Token i's loss, and its gradient.
  constexpr void judge(std::int64_t i, double clip) const {
    const std::int64_t row = i / tokens, at = 2 * row * tokens + i - row * tokens;
    double loss_of = 0, slope = 0;
    bool is_clipped = false;
    if (mask[i] != 0) {
      const double v = static_cast<double>(x[i]), wanted = static_cast<double>(returns[at]),
                   old = static_cast<double>(returns[at + tokens]);
      const double low = old - clip, high = old + clip;
      const double c = clip > 0 ? (v < low ? low : v > high ? high : v) : v;
      is_clipped = (c - wanted) * (c - wanted) > (v - wanted) * (v - wanted);
      slope = is_clipped ? 0 : v - wanted;
      const double off = is_clipped ? c - wanted : v - wanted;
      loss_of = off * off / 2;
    }
    loss[i] = static_cast<T>(loss_of);
    loss[rows * tokens + i] = is_clipped ? T(1) : T(0);
    if (weight) x[i] = static_cast<T>(static_cast<double>(weight[i]) * slope);
  }
};

}  // namespace mt

namespace mt::cpu {
template <class T>
void value_loss(const ValueTensors<T>& tensors, double clip);
}  // namespace mt::cpu

namespace mt::cuda {
void value_loss(const ValueTensors<float>& tensors, double clip, cudaStream_t stream);
}  // namespace mt::cuda
