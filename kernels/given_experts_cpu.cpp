#include "kernels/given_experts.h"

#include <algorithm>

namespace mt::cpu {

void take_experts(std::int32_t* expert, const std::int32_t* given, const GivenShape& s) {
  for (std::int64_t i = 0; i < s.tokens * s.chosen; ++i)
    if (const std::int32_t one = given[s.place(i)]; one >= 0) expert[i] = one;
}

void keep_experts(std::int32_t* cache, const std::int32_t* expert, const KeptPlaces& at,
                  const KeptShape& s) {
  for (std::int64_t t = 0; t < s.tokens; ++t)
    std::copy_n(expert + t * s.chosen, s.chosen,
                cache + row_in_cache(at.slots, s.runs, s.capacity, t / s.length, at.positions[t]) *
                            s.chosen);
}

}  // namespace mt::cpu
