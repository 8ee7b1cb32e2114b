#include "kernels/policy_loss.h"

namespace mt::cpu {

template <class T>
void policy_loss(const PolicyTensors<T>& tensors, const PolicyRules& rules) {
  const TextRows& rows = tensors.rows;
  for (std::int64_t t = 0; t < rows.rows * rows.texts; ++t) {
    const auto [begin, end] = rows.range(t);
    double sum = 0, count = 0, slope = 0;
    for (std::int64_t i = begin; rules.needs_texts() && i < end; ++i) {
      sum += tensors.in_sum(i, rules);
      count += static_cast<double>(tensors.mask[i]);
    }
    for (std::int64_t i = begin; i < end; ++i) slope += tensors.judge(i, rules, sum, count);
    for (std::int64_t i = begin; rules.of_texts() && tensors.weight && i < end; ++i)
      tensors.share(i, rules, slope, count);
    for (std::int64_t i = end; rows.is_last(t) && i < rows.end_of_row(t); ++i) tensors.clear(i);
  }
}

template void policy_loss(const PolicyTensors<float>&, const PolicyRules&);
template void policy_loss(const PolicyTensors<double>&, const PolicyRules&);

}  // namespace mt::cpu
