// kernels/wide_product.h: matrix products of numbers that are cast to double before they are
// multiplied, as routers' may be (Megatron-LM's --moe-router-dtype fp64).
//   c = op(a) op(b) + (accumulate ? c : 0) + bias        op(x) = x or its transpose
// c: [m, n];  op(a): [m, k];  op(b): [k, n];  bias: [n] or null; row-major, without padding.  A sum
// is rounded once, to c's type.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {

template <class A, class B = A, class C = A>
struct WideProduct {
  C* c = nullptr;
  const A* a = nullptr;
  const B* b = nullptr;
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;  // a is stored [k, m], b is stored [n, k]
  bool accumulate = false;
  const B* bias = nullptr;
};

}  // namespace mt

// A row gets the bits that it gets alone where gemm() says so (kernels/gemm.h).
namespace mt::cpu {
void wide_product(const WideProduct<float>& p);
}

// A, B and C: float, or A and B bf16 and C float, or A float, B bf16 and C either; or fp16 for
// bf16.  Each row gets the bits that it gets alone.
namespace mt::cuda {
template <class A, class B, class C>
void wide_product(const WideProduct<A, B, C>& p, cudaStream_t stream);
}
