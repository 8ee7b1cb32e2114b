#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "kernels/cuda_check.h"
#include "kernels/gemm.h"
#include "kernels/gemm_cache.h"
#include "kernels/gemm_plan.h"
#include "kernels/gemm_search.h"

namespace mt::cuda {
namespace {

using lt::Care, lt::Operands, lt::Plan, lt::Search, lt::Shape, lt::candidates, lt::check_library,
    lt::describe_plan, lt::kHaste, lt::kPatience, lt::multiply, lt::reduces_as_allowed;

template <class T>
constexpr cudaDataType_t kTypeOf = CUDA_R_32F;
template <>
constexpr cudaDataType_t kTypeOf<__nv_bfloat16> = CUDA_R_16BF;
template <>
constexpr cudaDataType_t kTypeOf<__half> = CUDA_R_16F;

cudaDataType_t type_of(Fp8Format format) {
  return format == Fp8Format::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}

// Products whose rows vary in number take the algorithm of the next multiple of so many rows.
constexpr std::int64_t kVaryingRows = 128;

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

// The largest power of two that divides an address, at most 256.
std::uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

// $XDG_CACHE_HOME/mt/ or ~/.cache/mt/, a file for each kind of GPU and version of cuBLASLt; empty
// where neither variable is set.
std::string cache_path() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::string folder = variable("XDG_CACHE_HOME");
  if (folder.empty() && !variable("HOME").empty()) folder = variable("HOME") + "/.cache";
  if (folder.empty()) return {};
  int device = 0;
  cudaDeviceProp gpu = {};
  check(cudaGetDevice(&device));
  check(cudaGetDeviceProperties(&gpu, device));
  std::string name = concat("gemm-", gpu.name, '-', cublasLtGetVersion());
  std::ranges::replace(name, ' ', '-');
  std::ranges::replace(name, '/', '-');
  return folder + "/mt/" + name;
}

}  // namespace

struct GemmLibrary::State {
  State() { check_library(cublasLtCreate(&library), "starting"); }
  ~State() { cublasLtDestroy(library); }
  State(const State&) = delete;
  const Plan& plan(const Shape& shape, const Operands& operands, void* work, cudaStream_t stream) {
    auto found = plans.find(shape);
    if (found != plans.end()) return found->second;
    Plan& plan = plans.emplace(shape, describe_plan(shape)).first->second;
    choose(shape, plan, operands, work, stream);
    return plan;
  }
  void choose(const Shape& shape, Plan& plan, const Operands& operands, void* work,
              cudaStream_t stream) {
    const std::string patient_name = shape.name() + ",patient";
    if (is_known(patient_name, shape, plan)) return;
    plan.may_be_slow = !patient && is_known(shape.name(), shape, plan);
    if (plan.may_be_slow) return;
    const Care& care = patient ? kPatience : kHaste;
    const std::vector<cublasLtMatmulAlgo_t> algorithms =
        candidates(library, shape, plan, care.algorithms);
    plan.algorithm = algorithms.front();
    if (!cache || algorithms.size() == 1) return;
    plan.may_be_slow = !patient;
    plan.algorithm = Search(library, shape, plan, operands, work, stream).fastest(algorithms, care);
    cache->add(patient ? patient_name : shape.name(), std::bit_cast<GemmAlgorithm>(plan.algorithm));
  }
  // Takes what the cache has by this name, if that can be used.
  bool is_known(const std::string& name, const Shape& shape, Plan& plan) const {
    const auto known = cache ? cache->find(name) : std::nullopt;
    if (!known) return false;
    const auto algorithm = std::bit_cast<cublasLtMatmulAlgo_t>(*known);
    cublasLtMatmulHeuristicResult_t checked = {};
    if (cublasLtMatmulAlgoCheck(library, plan.description.get(), plan.first.get(),
                                plan.second.get(), plan.out.get(), plan.out.get(), &algorithm,
                                &checked) != CUBLAS_STATUS_SUCCESS ||
        checked.workspaceSize > kGemmWork || !reduces_as_allowed(algorithm, shape))
      return false;
    plan.algorithm = algorithm;
    return true;
  }
  // Returns cuBLASLt's own choice for about so many rows: to time others of a number that seldom
  // comes again would take longer than they save.
  const cublasLtMatmulAlgo_t& usual(Shape shape) {
    std::int64_t& rows = shape.transpose_a ? shape.k : shape.m;
    rows = (rows + kVaryingRows - 1) / kVaryingRows * kVaryingRows;
    const auto found = usual_ones.find(shape);
    if (found != usual_ones.end()) return found->second;
    return usual_ones.emplace(shape, first_of(shape, describe_plan(shape))).first->second;
  }
  cublasLtMatmulAlgo_t first_of(const Shape& shape, const Plan& plan) const {
    return candidates(library, shape, plan, 1).front();
  }
  // Multiplies by a plan of its own, which is not kept; an algorithm that was chosen for about so
  // many rows may not do for these.
  void multiply_once(const Shape& shape, const Operands& operands, void* work,
                     cudaStream_t stream) {
    const Plan plan = describe_plan(shape);
    if (multiply(library, plan, operands, usual(shape), work, stream) == CUBLAS_STATUS_SUCCESS)
      return;
    check_library(multiply(library, plan, operands, first_of(shape, plan), work, stream),
                  "a product");
  }
  cublasLtHandle_t library = nullptr;
  std::map<Shape, Plan> plans;
  std::map<Shape, cublasLtMatmulAlgo_t> usual_ones;
  std::optional<GemmCache> cache;  // of a library that searches
  bool patient = false;
};

GemmLibrary::GemmLibrary() : state_(std::make_unique<State>()) {}
GemmLibrary::~GemmLibrary() = default;

void GemmLibrary::search() { state_->cache.emplace(cache_path()); }

bool GemmLibrary::search_again() {
  if (!state_->cache) return false;
  state_->patient = true;
  return std::erase_if(state_->plans, [](const auto& known) { return known.second.may_be_slow; }) >
         0;
}

template <class T, class C>
void GemmLibrary::gemm(const Gemm<T, C>& p, void* work, cudaStream_t stream) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) fail(Exit::internal, "gemm: an inner extent of 0");
  const C* const added = p.residual != nullptr ? p.residual : p.c;
  const bool adds = p.accumulate || p.residual != nullptr;
  const Operands operands{.a = p.a,
                          .b = p.b,
                          .added = added,
                          .bias = p.bias,
                          .c = p.c,
                          .at = p.at,
                          .beta = adds ? 1.0F : 0.0F};
  const Shape shape = {.in = kTypeOf<T>,
                       .out = kTypeOf<C>,
                       .m = p.m,
                       .n = p.n,
                       .k = p.k,
                       .transpose_a = p.transpose_a,
                       .transpose_b = p.transpose_b,
                       .accumulate = adds,
                       .epilogue = epilogue_of(p),
                       .align_a = alignment_of(p.a),
                       .align_b = alignment_of(p.b),
                       .align_c = std::min(alignment_of(p.c), alignment_of(added)),
                       .in_b = kTypeOf<T>};
  if (p.rows_vary) return state_->multiply_once(shape, operands, work, stream);
  const Plan& plan = state_->plan(shape, operands, work, stream);
  check_library(multiply(state_->library, plan, operands, plan.algorithm, work, stream),
                "a product");
}

template <class C>
void GemmLibrary::gemm(const Fp8Gemm<C>& p, void* work, cudaStream_t stream) {
  if (p.m == 0 || p.n == 0) return;
  const Operands operands{.a = p.a,
                          .b = p.b,
                          .added = p.c,
                          .bias = p.bias,
                          .c = p.c,
                          .at = nullptr,
                          .beta = p.accumulate ? 1.0F : 0.0F,
                          .a_inverse = p.a_inverse,
                          .b_inverse = p.b_inverse};
  const Shape shape = {
      .in = type_of(p.a_format),
      .out = kTypeOf<C>,
      .m = p.m,
      .n = p.n,
      .k = p.k,
      .transpose_a = false,
      .transpose_b = true,
      .accumulate = p.accumulate,
      .epilogue = p.bias != nullptr ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT,
      .align_a = alignment_of(p.a),
      .align_b = alignment_of(p.b),
      .align_c = alignment_of(p.c),
      .in_b = type_of(p.b_format),
      .fast = p.fast};
  const Plan& plan = state_->plan(shape, operands, work, stream);
  check_library(multiply(state_->library, plan, operands, plan.algorithm, work, stream),
                "a product of codes");
}

template void GemmLibrary::gemm(const Fp8Gemm<float>&, void*, cudaStream_t);
template void GemmLibrary::gemm(const Fp8Gemm<__nv_bfloat16>&, void*, cudaStream_t);
template void GemmLibrary::gemm(const Fp8Gemm<__half>&, void*, cudaStream_t);

template void GemmLibrary::gemm(const Gemm<float, float>&, void*, cudaStream_t);
template void GemmLibrary::gemm(const Gemm<__nv_bfloat16, __nv_bfloat16>&, void*, cudaStream_t);
template void GemmLibrary::gemm(const Gemm<__nv_bfloat16, float>&, void*, cudaStream_t);
template void GemmLibrary::gemm(const Gemm<__half, __half>&, void*, cudaStream_t);
template void GemmLibrary::gemm(const Gemm<__half, float>&, void*, cudaStream_t);

}  // namespace mt::cuda
