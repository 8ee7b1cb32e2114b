// kernels/experts.h: which experts a token goes to, and the way there and back (Shazeer et al.:
// arXiv:1701.06538, section 2.1; Jiang et al.: arXiv:2401.04088, section 2.1; DeepSeek-AI:
// arXiv:2412.19437, section 2.1.2).
//   choose     of each row of logits [tokens, experts] the `chosen` experts of largest key, the
//              first of equal ones, unless they are given: expert[t, j], ascending in j; weight[t,
//              j] by the rules, NaN where a logit of the row is
//   place      of each expert[t, j] its row, where rows lie by experts, those of one by tokens, of
//              the experts [first, first + count) alone: of others it is -1; and where each one's
//              end
//   spread     out[place[t, j]] = x[t]
//   gather     y[t] = sum over j, ascending, of x[place[t, j]]; one that is -1 adds nothing
//   row_dots   dots[r] = sum_c a[r, c] b[r, c]
// place, expert: [tokens, chosen] i32; ends: [count] i32; weight, dots in the type of sums.  T:
// float or double; on the GPU float, bf16 or fp16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {

// What a router makes of its logits z.  The key that experts are chosen by, and the weight of one
// that is:
//   softmax_of_chosen   z                   softmax over the chosen
//   softmax_of_all      softmax over all    the same
//   sigmoid             sigmoid(z) + bias   sigmoid(z) over the sum of the chosen, if they are many
//   sqrt_softplus       r(z) + bias         likewise, of r(z) = sqrt(ln(1 + e^z))
// or keys_given.  Times `scale`.  Of groups of experts that lie one after another those
// `kept_groups` are kept whose best chosen / kept_groups keys have the largest sums, or whose best
// key is the largest.
enum class RouterScores : std::uint8_t {
  softmax_of_chosen,
  softmax_of_all,
  sigmoid,
  sqrt_softplus
};
// Whether each expert has a score of its own, which no other's logit changes.
constexpr bool scores_each(RouterScores scores) {
  return scores == RouterScores::sigmoid || scores == RouterScores::sqrt_softplus;
}
struct RouterRules {
  std::int64_t tokens = 0, experts = 0, chosen = 0;
  RouterScores scores = RouterScores::softmax_of_chosen;
  std::int64_t groups = 1, kept_groups = 1;
  bool groups_by_best = false;  // by the best key alone (arXiv:2405.04434, section 2.2.2)
  double scale = 1;
  bool keys_given = false;  // what else is a bias is the keys themselves
  bool given = false;       // the experts are there, ascending: they are weighed alone

  // How many of a group's keys add up to what it is kept by.
  constexpr std::int64_t keys_of_group() const { return groups_by_best ? 1 : chosen / kept_groups; }
};
inline constexpr double kLeastScoreSum = 1e-20;  // what is added to a sum of experts' own scores

struct PlaceShape {
  std::int64_t tokens = 0, chosen = 0, first = 0, count = 0;
};

}  // namespace mt

namespace mt::cpu {
// bias: [experts], or null, or, where keys are given, [tokens, experts].
template <class T>
void choose(std::int32_t* expert, T* weight, const T* logits, const T* bias,
            const RouterRules& rules);
// d_logits is overwritten.
template <class T>
void choose_backward(T* d_logits, const T* d_weight, const T* logits, const std::int32_t* expert,
                     const RouterRules& rules);
void place(std::int32_t* place, std::int32_t* ends, const std::int32_t* expert,
           const PlaceShape& shape);
template <class T>
void spread(T* out, const T* x, const std::int32_t* place, std::int64_t cols,
            const PlaceShape& shape);
template <class T>
void gather(T* y, const T* x, const std::int32_t* place, std::int64_t cols,
            const PlaceShape& shape);
template <class T>
void row_dots(T* dots, const T* a, const T* b, std::int64_t rows, std::int64_t cols);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void choose(std::int32_t* expert, float* weight, const T* logits, const float* bias,
            const RouterRules& rules, cudaStream_t stream);
template <class T>
void choose_backward(T* d_logits, const float* d_weight, const T* logits,
                     const std::int32_t* expert, const RouterRules& rules, cudaStream_t stream);
// Blocks have 32 bytes of shared memory for each expert.
std::size_t place_work(const PlaceShape& shape);  // bytes
void place(std::int32_t* place, std::int32_t* ends, const std::int32_t* expert,
           const PlaceShape& shape, void* work, cudaStream_t stream);
template <class T>
void spread(T* out, const T* x, const std::int32_t* place, std::int64_t cols,
            const PlaceShape& shape, cudaStream_t stream);
template <class T>
void gather(T* y, const T* x, const std::int32_t* place, std::int64_t cols, const PlaceShape& shape,
            cudaStream_t stream);
template <class T>
void row_dots(float* dots, const T* a, const T* b, std::int64_t rows, std::int64_t cols,
              cudaStream_t stream);
}  // namespace mt::cuda
