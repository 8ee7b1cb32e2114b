#include "kernels/gemm_plan.h"

#include "base/error.h"
#include "kernels/gemm.h"

namespace mt::cuda::lt {
namespace {

Layout layout_of(cudaDataType_t type, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  check_library(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(columns),
                                           static_cast<std::uint64_t>(rows), columns),
                "a matrix");
  return Layout(layout);
}

template <class Value>
void set(const Description& description, cublasLtMatmulDescAttributes_t attribute,
         const Value& value) {
  check_library(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof value),
                "an attribute");
}

bool has_aux(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
         epilogue == CUBLASLT_EPILOGUE_DGELU;
}

Description describe(const Shape& s) {
  cublasLtMatmulDesc_t made = nullptr;
  check_library(cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
  Description description(made);
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, s.epilogue);
  if (has_aux(s.epilogue)) set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, s.n);
  if (s.fast) set(description, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
  return description;
}

// How partial sums may be added up: never in place, as that order is not fixed, nor rounded before
// to a result's shorter type.
std::uint32_t reductions_for(const Shape& s) {
  std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  if (s.out == CUDA_R_32F) schemes |= CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  return schemes;
}

Preference preference_for(const Shape& s) {
  cublasLtMatmulPreference_t made = nullptr;
  check_library(cublasLtMatmulPreferenceCreate(&made), "a preference");
  Preference preference(made);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check_library(
        cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
        "a preference");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kGemmWork);
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions_for(s));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, s.align_b);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s.align_a);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, s.align_c);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s.align_c);
  return preference;
}

}  // namespace

void check_library(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(Exit::internal, "cuBLASLt: ", what, ": ", cublasLtGetStatusString(status));
}

bool reduces_as_allowed(const cublasLtMatmulAlgo_t& algorithm, const Shape& s) {
  std::uint32_t reduction = 0;
  std::size_t written = 0;
  check_library(
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                           &reduction, sizeof reduction, &written),
      "an algorithm");
  return (reduction & ~reductions_for(s)) == 0;
}

Plan describe_plan(const Shape& s) {
  return {.description = describe(s),
          .first = s.transpose_b ? layout_of(s.in_b, s.n, s.k) : layout_of(s.in_b, s.k, s.n),
          .second = s.transpose_a ? layout_of(s.in, s.k, s.m) : layout_of(s.in, s.m, s.k),
          .out = layout_of(s.out, s.m, s.n)};
}

std::vector<cublasLtMatmulAlgo_t> candidates(cublasLtHandle_t library, const Shape& s,
                                             const Plan& plan, int most) {
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int found = 0;
  check_library(
      cublasLtMatmulAlgoGetHeuristic(library, plan.description.get(), plan.first.get(),
                                     plan.second.get(), plan.out.get(), plan.out.get(),
                                     preference_for(s).get(), most, results.data(), &found),
      "choosing an algorithm");
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  results.resize(static_cast<std::size_t>(found));
  for (const auto& result : results)
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  if (algorithms.empty())
    fail(Exit::internal, "cuBLASLt: no algorithm for [", s.m, ", ", s.k, "] x [", s.k, ", ", s.n,
         "]");
  return algorithms;
}

cublasStatus_t multiply(cublasLtHandle_t library, const Plan& plan, const Operands& x,
                        const cublasLtMatmulAlgo_t& algorithm, void* work, cudaStream_t stream) {
  if (x.bias != nullptr) set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, x.bias);
  if (x.at != nullptr) set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, x.at);
  if (x.a_inverse != nullptr) {
    set(plan.description, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, x.b_inverse);
    set(plan.description, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, x.a_inverse);
  }
  const float alpha = 1;
  return cublasLtMatmul(library, plan.description.get(), &alpha, x.b, plan.first.get(), x.a,
                        plan.second.get(), &x.beta, x.added, plan.out.get(), x.c, plan.out.get(),
                        &algorithm, work, kGemmWork, stream);
}

}  // namespace mt::cuda::lt
