// kernels/distill_loss.h: how far what a model says of the next word is from what its teacher says
// (Hinton et al.: arXiv:1503.02531; Agarwal et al.: arXiv:2306.13649, section 3.1).
//   s = log softmax(x / T),  t = log softmax(y / T),  m = log((1 - beta) e^s + beta e^t)
//   distance[r] = sum_c e^t (t - s)                                        beta = 0, forward KL
//                 sum_c e^s (s - t)                                        beta = 1, reverse KL
//                 beta sum_c e^t (t - m) + (1 - beta) sum_c e^s (s - m)    between, Jensen-Shannon
//   nll[r]      = -log softmax(x)[label]
//   with weights x[r,c] becomes the gradient of weight[0,r] distance[r] + weight[1,r] nll[r]
// x: the model's logits, y: the teacher's, [rows, cols], columns of a vocabulary that ranks may
// share (kernels/cross_entropy.h); what pads it counts as -infinity, and its gradient is 0.  Three
// steps, between which ranks gather and add up:
//   sums  [6, rows] of these columns: max x, sum e^((x - max) / T), sum e^(x - max), max y,
//         sum e^((y - max) / T), the label's x, 0 where it is elsewhere; then [ranks, 6, rows]
//   parts [2, rows]: these columns' share of the distance and of sum_c d distance / d s[c]; then
//         their sums over ranks
//   loss  [2, rows]: distance and nll; and the gradient
// labels: [rows];  weight: [2, rows], null: x stays as it is.  T: float or double; on the GPU x and
// y are float, bf16 or fp16, the others float.
#pragma once

#include <cmath>

#include "kernels/cross_entropy.h"

namespace mt {
struct Distance {
  double temperature = 1, beta = 0;
};
inline constexpr std::int64_t kDistillSums = 6;

// DistillRows: rows of both, of which a rank has the same columns.
template <class X, class T>
struct DistillRows {
  X* x;
  const X* y;
  const std::int32_t* labels;
  const T* sums;  // of all ranks
  VocabularyPart part;
  Distance distance;
};

// DistillRow: what follows from a row's sums over all ranks.
template <class T>
struct DistillRow {
  T inverse;                 // 1 / T
  T of_x, of_y;              // log sum e^(x / T), log sum e^(y / T)
  T plain;                   // log sum e^x
  T label = 0;               // its x
  T beta, log_own, log_its;  // log(1 - beta), log beta

  template <class X>
  constexpr DistillRow(const DistillRows<X, T>& rows, std::int64_t r)
      : inverse(static_cast<T>(1 / rows.distance.temperature)),
        beta(static_cast<T>(rows.distance.beta)),
        log_own(std::log(1 - beta)),
        log_its(std::log(beta)) {
    const auto of = [&](int rank, std::int64_t which) {
      return rows.sums[(std::int64_t{rank} * kDistillSums + which) * rows.part.rows + r];
    };
    T top = of(0, 0), top_y = of(0, 3), sum = 0, sum_plain = 0, sum_y = 0;
    for (int rank = 1; rank < rows.part.ranks; ++rank) {
      if (of(rank, 0) > top) top = of(rank, 0);
      if (of(rank, 3) > top_y) top_y = of(rank, 3);
    }
    for (int rank = 0; rank < rows.part.ranks; ++rank) {
      sum += of(rank, 1) * std::exp((of(rank, 0) - top) * inverse);
      sum_plain += of(rank, 2) * std::exp(of(rank, 0) - top);
      sum_y += of(rank, 4) * std::exp((of(rank, 3) - top_y) * inverse);
      label += of(rank, 5);
    }
    of_x = top * inverse + std::log(sum);
    of_y = top_y * inverse + std::log(sum_y);
    plain = top + std::log(sum_plain);
  }

  struct Word {
    T distance, slope;  // slope: by s
    T p;                // e^s
  };
  constexpr Word word(T x, T y) const {
    const T s = x * inverse - of_x, t = y * inverse - of_y, p = std::exp(s), q = std::exp(t);
    if (beta == 0) return {q * (t - s), -q, p};
    if (beta == 1) return {p * (s - t), p * (s - t + 1), p};
    const T a = s + log_own, b = t + log_its, top = a > b ? a : b,
            m = top + std::log(std::exp(a - top) + std::exp(b - top));
    return {beta * q * (t - m) + (1 - beta) * p * (s - m), (1 - beta) * p * (s - m), p};
  }
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void distill_sums(T* sums, const DistillRows<T, T>& rows);
template <class T>
void distill_parts(T* parts, const DistillRows<T, T>& rows);
template <class T>
void distill_gradient(T* loss, const T* weight, const T* parts, const DistillRows<T, T>& rows);
}  // namespace mt::cpu

namespace mt::cuda {
template <class X>
void distill_sums(float* sums, const DistillRows<X, float>& rows, cudaStream_t stream);
template <class X>
void distill_parts(float* parts, const DistillRows<X, float>& rows, cudaStream_t stream);
template <class X>
void distill_gradient(float* loss, const float* weight, const float* parts,
                      const DistillRows<X, float>& rows, cudaStream_t stream);
}  // namespace mt::cuda
