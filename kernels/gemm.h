// kernels/gemm.h: matrix products of row-major matrices.
//   c = op(a) op(b) + (accumulate ? c : 0) + bias        op(x) = x or its transpose
// c: [m, n];  op(a): [m, k];  op(b): [k, n];  bias: [n] or null, added to every row.  No padding
// between rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/cuda_types.h"
#include "kernels/fp8.h"

namespace mt {
inline constexpr std::int64_t kFewRows = 16;
// Forward products of a multiple of kRowTile rows are cut into tiles of so many or of multiples of
// it, and the loops of a BLAS kernel treat rows in turn, the same way every kRowPeriod: OpenBLAS
// takes 2, 4, 6, 8 or 12 at a time.
inline constexpr std::int64_t kRowPeriod = 12, kRowTile = 96;

enum class GemmThen : std::uint8_t { store, gelu, gelu_gradient };

template <class T, class C = T>
struct Gemm {
  C* c = nullptr;
  const T* a = nullptr;
  const T* b = nullptr;
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;  // a is stored [k, m], b is stored [n, k]
  bool accumulate = false;
  const T* bias = nullptr;
  // On GPUs alone, of 16-bit types where n is a multiple of 8: see Matmul in ops/ops.h.
  GemmThen then = GemmThen::store;
  T* at = nullptr;              // [m, n]
  const C* residual = nullptr;  // [m, n]
  // The rows of a, m or k, are another number at most calls: no algorithm is searched for.
  bool rows_vary = false;
};
}  // namespace mt

// T: float or double, sums in T.  The result's bits depend on the shape alone, not on how many
// threads work.  Where at most kFewRows rows meet a transposed b (and a is not), a row's bits
// depend on that row, b and bias alone, so that a sequence does not notice which others a step of
// generation serves.  With a multiple of kRowTile rows they depend on the row's number modulo
// kRowPeriod too, and on nothing else.
namespace mt::cpu {
template <class T>
void gemm(const Gemm<T>& problem);
}

// By cuBLASLt.  T: float, bf16 or fp16, sums in f32 (never tf32);  C: T or float.  Same problem,
// same bits.  What is added to a c of bf16 may be rounded before: on an H200 it is, as by
// cublasGemmEx, unless k is long beside m and n and cut.
namespace mt::cuda {
inline constexpr std::size_t kGemmWork = std::size_t{32} << 20;  // bytes of scratch

class GemmLibrary {  // not thread-safe
 public:
  GemmLibrary();
  ~GemmLibrary();
  // From now on the first product of a shape is also made by the other algorithms that cuBLASLt
  // proposes, and those that give the same bits are timed; the fastest is what such products take.
  // It is kept on disk (gemm_cache.h), for the next run on this kind of GPU.  No memory of the GPU
  // is needed for that; c may be `residual`, but no other operand.
  void search();
  // What search() finds takes some tenths of a second, and may not be the fastest on a GPU that is
  // hot.  From now on, of one that has been busy for a while, more algorithms are timed for longer,
  // of shapes that were made before too: at the next product of each, for some seconds.
  // Whether there are such; changes no bit either.
  bool search_again();
  template <class T, class C>
  void gemm(const Gemm<T, C>& problem, void* work, cudaStream_t stream);
  // Multiplies codes, on Ada and later.  C: bf16, fp16 or, without a bias, float.  Not both a and b
  // are E5M2; m, n and k are multiples of kFp8Multiple, and all addresses of 16.
  template <class C>
  void gemm(const Fp8Gemm<C>& problem, void* work, cudaStream_t stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};
}  // namespace mt::cuda
