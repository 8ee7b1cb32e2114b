#include "kernels/value_loss.h"

#include <algorithm>

namespace mt::cpu {

template <class T>
void value_loss(const ValueTensors<T>& t, double clip) {
  const std::int64_t all = t.rows * t.tokens;
  for (std::int64_t i = 0; i < all; ++i) {
    const std::int64_t row = i / t.tokens, at = 2 * row * t.tokens + i - row * t.tokens;
    double loss = 0, slope = 0;
    bool is_clipped = false;
    if (t.mask[i] != 0) {
      const double v = static_cast<double>(t.x[i]), wanted = static_cast<double>(t.returns[at]),
                   old = static_cast<double>(t.returns[at + t.tokens]);
      const double c = clip > 0 ? std::clamp(v, old - clip, old + clip) : v;
      is_clipped = (c - wanted) * (c - wanted) > (v - wanted) * (v - wanted);
      slope = is_clipped ? 0 : v - wanted;
      const double off = is_clipped ? c - wanted : v - wanted;
      loss = off * off / 2;
    }
    t.loss[i] = static_cast<T>(loss);
    t.loss[all + i] = is_clipped ? T(1) : T(0);
    if (t.weight) t.x[i] = static_cast<T>(static_cast<double>(t.weight[i]) * slope);
  }
}

template void value_loss(const ValueTensors<float>&, double);
template void value_loss(const ValueTensors<double>&, double);

}  // namespace mt::cpu
