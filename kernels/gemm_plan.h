// kernels/gemm_plan.h: what gemm_cuda.cpp asks of cuBLASLt: one product's shape, its description
// and the algorithms that there are for it.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "kernels/cuda_check.h"

namespace mt::cuda::lt {

// Fails where the status is no success; `what` was asked for.
void check_library(cublasStatus_t status, const char* what);

struct Destroy {
  void operator()(cublasLtMatmulDescOpaque_t* p) const { cublasLtMatmulDescDestroy(p); }
  void operator()(cublasLtMatrixLayoutOpaque_t* p) const { cublasLtMatrixLayoutDestroy(p); }
  void operator()(cublasLtMatmulPreferenceOpaque_t* p) const { cublasLtMatmulPreferenceDestroy(p); }
};
using Description = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Destroy>;

// All that the choice of an algorithm depends on.
struct Shape {
  cudaDataType_t in, out;
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;
  cublasLtEpilogue_t epilogue;
  std::uint32_t align_a, align_b, align_c;  // bytes
  cudaDataType_t in_b;                      // what b is of; a is of `in`
  bool fast = false;                        // Fp8Gemm::fast
  auto key() const {
    return std::tie(in, out, m, n, k, transpose_a, transpose_b, accumulate, epilogue, align_a,
                    align_b, align_c, in_b, fast);
  }
  bool operator<(const Shape& other) const { return key() < other.key(); }
  std::string name() const {
    const auto joined = [](const auto&... part) { return (concat(',', part) + ...); };
    return std::apply(joined, key()).substr(1);
  }
};

// cuBLASLt counts in columns: a row-major [r, c] matrix is its [c, r] with distance c between
// columns.  So c^T = op(b)^T op(a)^T is asked for, b first.
struct Plan {
  Description description;
  Layout first, second, out;
  cublasLtMatmulAlgo_t algorithm = {};
  bool may_be_slow = false;  // it was searched for in haste
};

// Operands: the matrices of one product.  c may be `added`, which beta multiplies.
struct Operands {
  const void *a, *b, *added, *bias;
  void *c, *at;
  float beta;
  const float *a_inverse = nullptr, *b_inverse = nullptr;  // of codes
};

Plan describe_plan(const Shape& s);

// What cuBLASLt would take, the best by its own estimate first.
std::vector<cublasLtMatmulAlgo_t> candidates(cublasLtHandle_t library, const Shape& s,
                                             const Plan& plan, int most);

// A cache may hold one that was found where others were allowed.
bool reduces_as_allowed(const cublasLtMatmulAlgo_t& algorithm, const Shape& s);

// With kGemmWork bytes of `work`.
cublasStatus_t multiply(cublasLtHandle_t library, const Plan& plan, const Operands& x,
                        const cublasLtMatmulAlgo_t& algorithm, void* work, cudaStream_t stream);

}  // namespace mt::cuda::lt
