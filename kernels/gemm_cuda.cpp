#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "base/error.h"
#include "kernels/gemm.h"

namespace mt::cuda {
namespace {

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(Exit::internal, "cuBLASLt: ", what, ": ", cublasLtGetStatusString(status));
}

template <class T>
constexpr cudaDataType_t kTypeOf = CUDA_R_32F;
template <>
constexpr cudaDataType_t kTypeOf<__nv_bfloat16> = CUDA_R_16BF;
template <>
constexpr cudaDataType_t kTypeOf<__half> = CUDA_R_16F;

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
  auto key() const {
    return std::tie(in, out, m, n, k, transpose_a, transpose_b, accumulate, epilogue, align_a,
                    align_b, align_c);
  }
  bool operator<(const Shape& other) const { return key() < other.key(); }
};

// cuBLASLt counts in columns: a row-major [r, c] matrix is its [c, r] with distance c between
// columns.  So c^T = op(b)^T op(a)^T is asked for, b first.
struct Plan {
  Description description;
  Layout first, second, out;
  cublasLtMatmulAlgo_t algorithm;
};

Layout layout_of(cudaDataType_t type, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), columns),
        "a matrix");
  return Layout(layout);
}

template <class Value>
void set(const Description& description, cublasLtMatmulDescAttributes_t attribute,
         const Value& value) {
  check(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof value),
        "an attribute");
}

bool has_aux(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
         epilogue == CUBLASLT_EPILOGUE_DGELU;
}

template <class T, class C>
cublasLtEpilogue_t epilogue_of(const Gemm<T, C>& p) {
  const bool bias = p.bias != nullptr;
  switch (p.then) {
    case GemmThen::gelu:
      if (p.at == nullptr) return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
      return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case GemmThen::gelu_gradient:
      return CUBLASLT_EPILOGUE_DGELU;
    case GemmThen::store:
      break;
  }
  return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

Description describe(const Shape& s) {
  cublasLtMatmulDesc_t made = nullptr;
  check(cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
  Description description(made);
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, s.epilogue);
  if (has_aux(s.epilogue)) set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, s.n);
  return description;
}

// Partial sums are never added in place, as that order is not fixed.
Preference preference_for(const Shape& s) {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "a preference");
  Preference preference(made);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
          "a preference");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kGemmWork);
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_MASK &
                                    ~CUBLASLT_REDUCTION_SCHEME_INPLACE));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, s.align_b);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s.align_a);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, s.align_c);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s.align_c);
  return preference;
}

Plan make_plan(cublasLtHandle_t library, const Shape& s) {
  Plan plan{.description = describe(s),
            .first = s.transpose_b ? layout_of(s.in, s.n, s.k) : layout_of(s.in, s.k, s.n),
            .second = s.transpose_a ? layout_of(s.in, s.k, s.m) : layout_of(s.in, s.m, s.k),
            .out = layout_of(s.out, s.m, s.n),
            .algorithm = {}};
  cublasLtMatmulHeuristicResult_t best = {};
  int found = 0;
  check(cublasLtMatmulAlgoGetHeuristic(library, plan.description.get(), plan.first.get(),
                                       plan.second.get(), plan.out.get(), plan.out.get(),
                                       preference_for(s).get(), 1, &best, &found),
        "choosing an algorithm");
  if (found == 0)
    fail(Exit::internal, "cuBLASLt: no algorithm for [", s.m, ", ", s.k, "] x [", s.k, ", ", s.n,
         "]");
  plan.algorithm = best.algo;
  return plan;
}

// The largest power of two that divides an address, at most 256.
std::uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

}  // namespace

struct GemmLibrary::State {
  State() { check(cublasLtCreate(&library), "starting"); }
  ~State() { cublasLtDestroy(library); }
  State(const State&) = delete;
  const Plan& plan(const Shape& shape) {
    auto found = plans.find(shape);
    if (found == plans.end()) found = plans.emplace(shape, make_plan(library, shape)).first;
    return found->second;
  }
  cublasLtHandle_t library = nullptr;
  std::map<Shape, Plan> plans;
};

GemmLibrary::GemmLibrary() : state_(std::make_unique<State>()) {}
GemmLibrary::~GemmLibrary() = default;

template <class T, class C>
void GemmLibrary::gemm(const Gemm<T, C>& p, void* work, cudaStream_t stream) {
  if (p.m == 0 || p.n == 0) return;
  const C* const added = p.residual != nullptr ? p.residual : p.c;
  if (p.k == 0) fail(Exit::internal, "gemm: an inner extent of 0");
  const Plan& plan = state_->plan({.in = kTypeOf<T>,
                                   .out = kTypeOf<C>,
                                   .m = p.m,
                                   .n = p.n,
                                   .k = p.k,
                                   .transpose_a = p.transpose_a,
                                   .transpose_b = p.transpose_b,
                                   .accumulate = p.accumulate || p.residual != nullptr,
                                   .epilogue = epilogue_of(p),
                                   .align_a = alignment_of(p.a),
                                   .align_b = alignment_of(p.b),
                                   .align_c = std::min(alignment_of(p.c), alignment_of(added))});
  if (p.bias != nullptr) set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  if (p.at != nullptr) set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.at);
  const float alpha = 1, beta = p.accumulate || p.residual != nullptr ? 1 : 0;
  check(cublasLtMatmul(state_->library, plan.description.get(), &alpha, p.b, plan.first.get(), p.a,
                       plan.second.get(), &beta, added, plan.out.get(), p.c, plan.out.get(),
                       &plan.algorithm, work, kGemmWork, stream),
        "a product");
}

template void GemmLibrary::gemm(const Gemm<float, float>&, void*, cudaStream_t);
template void GemmLibrary::gemm(const Gemm<__nv_bfloat16, __nv_bfloat16>&, void*, cudaStream_t);
template void GemmLibrary::gemm(const Gemm<__nv_bfloat16, float>&, void*, cudaStream_t);
template void GemmLibrary::gemm(const Gemm<__half, __half>&, void*, cudaStream_t);
template void GemmLibrary::gemm(const Gemm<__half, float>&, void*, cudaStream_t);

}  // namespace mt::cuda
