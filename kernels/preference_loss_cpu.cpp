#include "kernels/preference_loss.h"

#include <algorithm>

namespace mt::cpu {

template <class T>
void preference_loss(const PreferenceTensors<T, T>& tensors, const PreferenceRules& rules) {
  double z = 0, others = 0;
  for (std::int64_t i = 0; rules.has_single_texts() && i < tensors.units; ++i) {
    z += tensors.rho_of_other(i);
    others += tensors.share[i] > 0 ? 1 : 0;
  }
  z = std::max(0.0, z / std::max(1.0, others));
  for (std::int64_t i = 0; i < tensors.units; ++i) tensors.judge(i, rules, z);
}

template void preference_loss(const PreferenceTensors<float, float>&, const PreferenceRules&);
template void preference_loss(const PreferenceTensors<double, double>&, const PreferenceRules&);

}  // namespace mt::cpu
