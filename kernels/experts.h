// kernels/experts.h: which experts a token goes to, and the way there and back (Shazeer et al.:
// arXiv:1701.06538, section 2.1; Jiang et al.: arXiv:2401.04088, section 2.1).
//   route           of each row of logits [tokens, experts] the `chosen` largest, of equal ones the
//                   first: expert[t, j], ascending in j; weight[t, j] = their softmax
//   spread          out[place[t, j]] = x[t]: rows lie by experts, those of one by tokens
//   weigh           out[place[t, j]] = weight[t, j] a[place[t, j]]
//   gather          y[t] = sum over j, ascending, of x[place[t, j]]
// place, expert: [tokens, chosen] i32; ends: [experts] i32, where each expert's rows end; weight in
// the type of sums.  T: float or double.  There is no kernel for GPUs.
#pragma once

#include <cstdint>

namespace mt {
struct RouteShape {
  std::int64_t tokens = 0, experts = 0, chosen = 0;
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void route(std::int32_t* expert, T* weight, std::int32_t* place, std::int32_t* ends,
           const T* logits, const RouteShape& shape);
// d_logits is overwritten.
template <class T>
void route_backward(T* d_logits, const T* d_weight, const T* weight, const std::int32_t* expert,
                    const RouteShape& shape);
template <class T>
void spread(T* out, const T* x, const std::int32_t* place, std::int64_t cols,
            const RouteShape& shape);
template <class T>
void weigh(T* out, const T* a, const T* weight, const std::int32_t* place, std::int64_t cols,
           const RouteShape& shape);
// da = weight dy and d_weight[t, j] = dy . a, at the same place.
template <class T>
void weigh_backward(T* da, T* d_weight, const T* dy, const T* a, const T* weight,
                    const std::int32_t* place, std::int64_t cols, const RouteShape& shape);
template <class T>
void gather(T* y, const T* x, const std::int32_t* place, std::int64_t cols,
            const RouteShape& shape);
}  // namespace mt::cpu
