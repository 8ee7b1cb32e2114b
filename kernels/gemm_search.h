// kernels/gemm_search.h: which of cuBLASLt's algorithms is the fastest for a product, by timing
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/gemm_plan.h"

namespace mt::cuda::lt {

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
inline constexpr Care kHaste{8, 1.03F, 10, 20, 1}, kPatience{32, 1.15F, 80, 80, 4};

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

}  // namespace mt::cuda::lt
