#include "kernels/head_shares.h"
#include "kernels/loops.h"

namespace mt::cpu {

template <class T>
void split_heads(T* shares, const T* projected, const HeadShares& of) {
  const std::int64_t cols = of.part().projected(), width = of.ranks * cols;
  for_blocks(of.whole.tokens(), rows_per_block(width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t)
      for (std::int64_t rank = 0; rank < of.ranks; ++rank)
        for (std::int64_t c = 0; c < cols; ++c)
          shares[t * width + rank * cols + c] =
              projected[t * of.whole.projected() + of.place(rank, c)];
  });
}

template <class T>
void merge_heads(T* d_projected, const T* d_shares, const HeadShares& of) {
  const std::int64_t cols = of.part().projected(), all = of.whole.projected();
  for_blocks(of.whole.tokens(), rows_per_block(all), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t)
      for (std::int64_t j = of.whole.mixed_of_projected(); j < all; ++j) {
        const HeadShares::Holders in = of.holders(j);
        T sum = 0;
        for (std::int64_t rank = in.first; rank < in.first + in.count; ++rank)
          sum += d_shares[(t * of.ranks + rank) * cols + in.c];
        d_projected[t * all + j] = sum;
      }
  });
}

#define INSTANTIATE(T)                                        \
  template void split_heads(T*, const T*, const HeadShares&); \
  template void merge_heads(T*, const T*, const HeadShares&)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
