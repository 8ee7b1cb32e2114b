// kernels/block_product.h: a matrix product of row-major blocks on the calling thread: what gemm
// and attention are tiled with.
//   c = alpha op(a) op(b) + beta c       op(x) = x or its transpose;  beta 0 does not read c
// c: [m, n] with ldc elements between rows, and so on;  op(a): [m, k];  op(b): [k, n].
// T: float or double, sums in T, by CBLAS.
#pragma once

#include <cstdint>

namespace mt::cpu {

template <class T>
struct Block {  // of a larger row-major matrix
  T* data = nullptr;
  std::int64_t stride = 0;
  bool transpose = false;
};

template <class T>
void block_product(Block<T> c, Block<const T> a, Block<const T> b, std::int64_t m, std::int64_t n,
                   std::int64_t k, T alpha, T beta);

}  // namespace mt::cpu
