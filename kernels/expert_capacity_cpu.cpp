#include "kernels/expert_capacity.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace mt::cpu {

template <class T>
void keep_tokens(std::int32_t* kept, const std::int32_t* expert, const T* weight,
                 const CapacityShape& s) {
  std::vector<std::vector<std::int64_t>> slots(static_cast<std::size_t>(s.experts));
  for (std::int64_t i = 0; i < s.tokens * s.chosen; ++i)
    slots[static_cast<std::size_t>(expert[i])].push_back(i);
  std::fill_n(kept, s.tokens * s.chosen, -1);
  const auto key = [&](std::int64_t i) { return std::isnan(weight[i]) ? T(0) : weight[i]; };
  for (std::vector<std::int64_t>& own : slots) {
    if (weight != nullptr)
      std::ranges::stable_sort(own,
                               [&](std::int64_t a, std::int64_t b) { return key(a) > key(b); });
    if (std::ssize(own) > s.capacity) own.resize(static_cast<std::size_t>(s.capacity));
    for (const std::int64_t i : own) kept[i] = expert[i];
  }
}

void add_dropped(double* sum, const std::int32_t* kept, std::int64_t count) {
  *sum += static_cast<double>(std::count(kept, kept + count, -1));
}

template void keep_tokens(std::int32_t*, const std::int32_t*, const float*, const CapacityShape&);
template void keep_tokens(std::int32_t*, const std::int32_t*, const double*, const CapacityShape&);

}  // namespace mt::cpu
