// kernels/few_rows.cuh: what the kernels of few_rows_cuda.cu are told, and how blocks share the
// work.
#pragma once

#include <algorithm>

#include "kernels/few_rows.h"

namespace mt::cuda::few {

inline constexpr int kWarps = 8, kThreads = 32 * kWarps;
inline constexpr int kRun = 64;  // elements of a row that a warp takes at a time: 128 bytes
inline constexpr int kSlice = kRun * kWarps;  // ... a block
inline constexpr int kPiece = 1024;           // bytes that a thread brings into the L2

// Which columns of c a block makes, in passes of all blocks over neighbouring ones: 16 each, in the
// last pass 8 if that does; of silu 8, which two rows of b go into.
struct Columns {
  int end, step, full, last_step;

  template <class T, class C>
  Columns(const FewRows<T, C>& p, int blocks) {
    const bool swiglu = p.then == FewRows<T, C>::Then::swiglu;
    end = static_cast<int>(swiglu ? p.n / 2 : p.n);
    step = swiglu ? 8 : 16;
    full = end / (step * blocks);
    last_step = end - full * step * blocks <= 8 * blocks ? 8 : step;
  }
  __device__ int first(int pass) const {
    const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
    return pass < full ? (pass * blocks + block) * step : full * step * blocks + block * last_step;
  }
  __device__ int width(int pass) const {
    return pass < full ? step : pass > full ? 0 : max(0, min(last_step, end - first(pass)));
  }
};

// Where unit `unit`, of 16 bytes, of a row lies among rows of a run each in shared memory, so that
// the banks of a unit of eight rows differ.
inline constexpr int kLine = kRun * 2;  // bytes of a run
__device__ inline int place_in(int row, int unit) { return row * kLine + (unit ^ row % 8) * 16; }

// A problem as the kernels take it: sizes of 32 bits, which they multiply sooner than of 64, and
// what the host can work out for all blocks.
template <class T, class C>
struct Arguments {
  const T* b;
  typename FewRows<T, C>::Norm norm;
  int m, n, k;
  bool swiglu, gelu;
  Columns columns;
  int held;          // rounds of a that lie in shared memory
  int ahead_pieces;  // of kPiece bytes
  const T* a;
  C* c;
  const T* bias;
  const C* residual;
  T* at;
  const char* ahead;

  Arguments(const FewRows<T, C>& p, int blocks, int rounds)
      : b(p.b),
        norm(p.norm),
        m(static_cast<int>(p.m)),
        n(static_cast<int>(p.n)),
        k(static_cast<int>(p.k)),
        swiglu(p.then == FewRows<T, C>::Then::swiglu),
        gelu(p.then == FewRows<T, C>::Then::gelu),
        columns(p, blocks),
        held(rounds),
        ahead_pieces(static_cast<int>(
            std::min(p.ahead_bytes / kPiece, static_cast<std::size_t>(blocks) * 32))),
        a(p.a),
        c(p.c),
        bias(p.bias),
        residual(p.residual),
        at(p.at),
        ahead(static_cast<const char*>(p.ahead)) {}
};

}  // namespace mt::cuda::few
