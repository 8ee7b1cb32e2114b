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
#include <tuple>
#include <vector>

#include "base/error.h"
#include "kernels/cuda_check.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/gemm_cache.h"

namespace mt::cuda {
namespace {

void check_library(cublasStatus_t status, const char* what) {
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

cudaDataType_t type_of(Fp8Format format) {
  return format == Fp8Format::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}

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

// Products whose rows vary in number take the algorithm of the next multiple of so many rows.
constexpr std::int64_t kVaryingRows = 128;

// Operands: the matrices of one product.  c may be `added`, which beta multiplies.
struct Operands {
  const void *a, *b, *added, *bias;
  void *c, *at;
  float beta;
  const float *a_inverse = nullptr, *b_inverse = nullptr;  // of codes
};

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

// A cache may hold one that was found where others were allowed.
bool reduces_as_allowed(const cublasLtMatmulAlgo_t& algorithm, const Shape& s) {
  std::uint32_t reduction = 0;
  std::size_t written = 0;
  check_library(
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                           &reduction, sizeof reduction, &written),
      "an algorithm");
  return (reduction & ~reductions_for(s)) == 0;
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

Plan describe_plan(const Shape& s) {
  return {.description = describe(s),
          .first = s.transpose_b ? layout_of(s.in_b, s.n, s.k) : layout_of(s.in_b, s.k, s.n),
          .second = s.transpose_a ? layout_of(s.in, s.k, s.m) : layout_of(s.in, s.m, s.k),
          .out = layout_of(s.out, s.m, s.n)};
}

// What cuBLASLt would take, the best by its own estimate first.
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

// The largest power of two that divides an address, at most 256.
std::uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

// --- Search -------------------------------------------------------------------------------------

// How algorithms are timed: so many, three runs each; then, of those that take no more than `near`
// times what the fastest does, `measured` ms, after as many as `before`, in up to so many rounds.
struct Care {
  int algorithms;
  float near, before, measured;
  int rounds;
};
// A GPU that has been busy for some time is slowed down by the power that it may take, and there
// the algorithm that needs the least energy is the fastest, which three runs need not show.  To see
// that takes some tenths of a second, and as times then differ by 1 % from one to the next, some
// rounds: of a Llama-style 3.6B model on an H200, about a minute in all, for steps that take 1 %
// less.
constexpr Care kHaste{8, 1.03F, 10, 20, 1}, kPatience{32, 1.15F, 80, 80, 4};
constexpr float kOutOfReach = 1.03F;  // times the fastest's time: not timed in the next round

// Times algorithms for one product.  Its result goes to where it belongs, as the product itself
// will write it again, so that a search takes no memory of the GPU; what the product adds to in
// place waits on the host meanwhile.
class Search {
 public:
  Search(cublasLtHandle_t library, const Shape& shape, const Plan& plan, const Operands& operands,
         void* work, cudaStream_t stream);
  ~Search();
  Search(const Search&) = delete;

  // The fastest of those that give the same bits as the first, so that results do not depend on
  // what was timed here.
  cublasLtMatmulAlgo_t fastest(std::vector<cublasLtMatmulAlgo_t> algorithms, const Care& care);

 private:
  struct Contender {
    cublasLtMatmulAlgo_t algorithm;
    float alone, together = 0;  // ms of a run: the first three's, and all rounds' added up
  };
  bool run(const cublasLtMatmulAlgo_t& algorithm);
  std::optional<std::uint64_t> digest_by(const cublasLtMatmulAlgo_t& algorithm);
  float milliseconds(const cublasLtMatmulAlgo_t& algorithm, int runs);  // of one run

  cublasLtHandle_t library_;
  const Plan& plan_;
  const Operands& operands_;
  void* work_;
  cudaStream_t stream_;
  std::size_t bytes_;                    // of the result
  std::unique_ptr<std::byte[]> before_;  // null: nothing is added to in place
  cudaEvent_t events_[2] = {};
};

Search::Search(cublasLtHandle_t library, const Shape& shape, const Plan& plan,
               const Operands& operands, void* work, cudaStream_t stream)
    : library_(library),
      plan_(plan),
      operands_(operands),
      work_(work),
      stream_(stream),
      bytes_(static_cast<std::size_t>(shape.m * shape.n) * (shape.out == CUDA_R_32F ? 4 : 2)) {
  for (cudaEvent_t& event : events_) check(cudaEventCreate(&event));
  if (operands.beta == 0 || operands.added != operands.c) return;
  before_ = std::make_unique_for_overwrite<std::byte[]>(bytes_);
  check(cudaMemcpyAsync(before_.get(), operands.c, bytes_, cudaMemcpyDefault, stream));
}

Search::~Search() {
  if (before_) cudaMemcpyAsync(operands_.c, before_.get(), bytes_, cudaMemcpyDefault, stream_);
  cudaStreamSynchronize(stream_);
  for (cudaEvent_t& event : events_) cudaEventDestroy(event);
}

bool Search::run(const cublasLtMatmulAlgo_t& algorithm) {
  return multiply(library_, plan_, operands_, algorithm, work_, stream_) == CUBLAS_STATUS_SUCCESS;
}

// A hash of the result that the algorithm gives where what is added to is the same number
// everywhere; none where the algorithm does not run.
std::optional<std::uint64_t> Search::digest_by(const cublasLtMatmulAlgo_t& algorithm) {
  constexpr int kByte = 0x3f;  // of numbers near 1 in all types
  if (before_) check(cudaMemsetAsync(operands_.c, kByte, bytes_, stream_));
  if (!run(algorithm)) return std::nullopt;
  auto* const of_result = static_cast<std::uint64_t*>(work_);  // the product is through with it
  digest(of_result, static_cast<const std::uint16_t*>(operands_.c),
         static_cast<std::int64_t>(bytes_ / sizeof(std::uint16_t)), stream_);
  std::uint64_t value = 0;
  check(cudaMemcpyAsync(&value, of_result, sizeof value, cudaMemcpyDefault, stream_));
  check(cudaStreamSynchronize(stream_));
  return value;
}

float Search::milliseconds(const cublasLtMatmulAlgo_t& algorithm, int runs) {
  float time = 0;
  check(cudaEventRecord(events_[0], stream_));
  for (int i = 0; i < runs; ++i) run(algorithm);
  check(cudaEventRecord(events_[1], stream_));
  check(cudaEventSynchronize(events_[1]));
  check(cudaEventElapsedTime(&time, events_[0], events_[1]));
  return time / static_cast<float>(runs);
}

cublasLtMatmulAlgo_t Search::fastest(std::vector<cublasLtMatmulAlgo_t> algorithms,
                                     const Care& care) {
  const cublasLtMatmulAlgo_t first = algorithms.front();
  const std::optional<std::uint64_t> expected = digest_by(first);
  if (!expected) return first;
  const auto others = std::remove_if(
      algorithms.begin() + 1, algorithms.end(),
      [&](const cublasLtMatmulAlgo_t& algorithm) { return digest_by(algorithm) != expected; });
  algorithms.erase(others, algorithms.end());
  std::vector<Contender> contenders;
  for (const auto& algorithm : algorithms)
    contenders.push_back({algorithm, milliseconds(algorithm, 3)});
  const float near = care.near * std::ranges::min(contenders, {}, &Contender::alone).alone;
  std::erase_if(contenders, [&](const Contender& x) { return x.alone > near; });
  for (int round = 0; round < care.rounds && contenders.size() > 1; ++round) {
    for (Contender& x : contenders) {
      const auto runs = [&](float time) { return std::max(1, static_cast<int>(time / x.alone)); };
      milliseconds(x.algorithm, runs(care.before));
      x.together += milliseconds(x.algorithm, runs(care.measured));
    }
    const float reach =
        kOutOfReach * std::ranges::min(contenders, {}, &Contender::together).together;
    std::erase_if(contenders, [&](const Contender& x) { return x.together > reach; });
    std::ranges::reverse(contenders);  // the next is timed behind others
  }
  return std::ranges::min(contenders, {}, &Contender::together).algorithm;
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
