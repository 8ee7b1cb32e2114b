// kernels/few_rows_held.cuh: the rows of `a` in shared memory, normalised, for few_rows_cuda.cu:
// all of them, or where they are too long a round of each at a time.
#pragma once

#include "kernels/few_rows.cuh"
#include "kernels/pack.cuh"
#include "kernels/ptx.cuh"
#include "kernels/reduce.cuh"

namespace mt::cuda::few {

inline constexpr int kRoundSlices = 4, kRound = kRoundSlices * kSlice;  // elements of a round
inline constexpr int kUnit = 8;                                         // elements of 16 bytes
inline constexpr int kPad = kUnit;  // elements between rows in shared memory: other banks

// The sum over each row of its elements' f(element, row), or of their squares, in `sums`; all
// threads, each the same elements whatever m is.  What is a multiplication and an addition in one
// is said, so that it is in every kernel.
template <bool kSquares, class T, class F>
__device__ void row_sums(float (&sums)[kFewRows][kWarps], const T* rows, int stride, int m, int k,
                         const F& f) {
  for (int i = 0; i < m; ++i) {
    float sum = 0;
    for (int x = threadIdx.x * kUnit; x < k; x += kThreads * kUnit) {
      const auto pack = load<kUnit>(rows + std::int64_t{i} * stride + x);
#pragma unroll
      for (int n = 0; n < kUnit; ++n) {
        const float value = f(pack[n], i);
        sum = kSquares ? fmaf(value, value, sum) : sum + value;
      }
    }
    sum = over_lanes(sum);
    if (threadIdx.x % 32 == 0) sums[i][threadIdx.x / 32] = sum;
  }
  __syncthreads();
}
__device__ inline float total(const float (&sums)[kWarps]) {
  float sum = 0;
#pragma unroll
  for (const float part : sums) sum += part;
  return sum;
}

// What normalises a row; sums: as measure_rows() leaves them.
struct Measure {
  float mean = 0, rstd;

  template <class T, class C>
  __device__ Measure(const Arguments<T, C>& p, const float (&sums)[2][kFewRows][kWarps], int row) {
    const auto count = static_cast<float>(p.k);
    if (p.norm.centred) mean = total(sums[0][row]) / count;
    rstd = rsqrtf(total(sums[1][row]) / count + p.norm.eps);
  }
};

// Sums up what the norm needs of rows that lie `stride` apart.  A thread reads what it wrote itself
// in Held::put_all().
template <class T, class C>
__device__ void measure_rows(const Arguments<T, C>& p, const T* rows, int stride,
                             float (&sums)[2][kFewRows][kWarps]) {
  if (!p.norm.centred)
    return row_sums<true>(sums[1], rows, stride, p.m, p.k, [](float x, int) { return x; });
  row_sums<false>(sums[0], rows, stride, p.m, p.k, [](float x, int) { return x; });
  const auto count = static_cast<float>(p.k);
  row_sums<true>(sums[1], rows, stride, p.m, p.k,
                 [&](float x, int row) { return x - total(sums[0][row]) / count; });
}

// A unit of a row, normalised by of.mean and of.rstd; w and shift: where those of its place are.
template <class T, class C, class Of>
__device__ Pack<T, kUnit> normal(const Arguments<T, C>& p, const Pack<T, kUnit>& a, const T* w,
                                 const T* shift, const Of& of) {
  const auto scale = load<kUnit>(w);
  float y[kUnit] = {};
  if (p.norm.shift) {
    const auto added = load<kUnit>(shift);
#pragma unroll
    for (int n = 0; n < kUnit; ++n) y[n] = added[n];
  }
#pragma unroll
  for (int n = 0; n < kUnit; ++n)
    y[n] = fmaf((a[n] - of.mean) * of.rstd, scale[n] + p.norm.offset, y[n]);
  return Pack<T, kUnit>::of(y);
}

// All of a in shared memory, `width` elements a row and kPad behind, zeros past its end; behind it
// the norm's w and shift, which are fetched ahead of the kernel before.
template <class T, class C>
struct Held {
  const Arguments<T, C>& p;
  T* const rows;
  const int width, stride;
  T *const w, *const shift;

  __device__ Held(const Arguments<T, C>& problem, T* memory, int row_width)
      : p(problem),
        rows(memory),
        width(row_width),
        stride(row_width + kPad),
        w(memory + problem.m * stride),
        shift(w + row_width) {}

  __device__ void fetch_norm() const {
    if (p.norm.w == nullptr) return;
    for (int x = threadIdx.x * kUnit; x < p.k; x += kThreads * kUnit) {
      copy_16_bytes(w + x, p.norm.w + x);
      if (p.norm.shift) copy_16_bytes(shift + x, p.norm.shift + x);
    }
  }
  // Some of this thread's units, from a place on; by way of registers, as waiting for copies would
  // be waiting for those of b too, which were begun before.
  struct Place {
    int row = 0, round = 0;
  };
  struct Some {
    Pack<T, kUnit> units[4];
  };
  __device__ Some fetch(const Place& first) const {
    Some some;
    for_units(first, some, [&](Pack<T, kUnit>& unit, int i, int x) {
      unit = x < p.k ? load<kUnit>(p.a + i * p.k + x) : Pack<T, kUnit>{};
    });
    return some;
  }
  __device__ Place put(const Place& first, Some& some) const {  // returns the next place
    return for_units(first, some, [&](const Pack<T, kUnit>& unit, int i, int x) {
      store(rows + i * stride + x, unit);
    });
  }
  __device__ void put_all(Some& first) const {
    for (Place next = put({}, first); next.row < p.m;) {
      Some some = fetch(next);
      next = put(next, some);
    }
  }
  template <class Memory>
  __device__ void normalise(Memory& shared) const {
    if (p.norm.w) {
      measure_rows(p, rows, stride, shared.sums);
      for (int i = 0; i < p.m; ++i) {
        const Measure of(p, shared.sums, i);
        for (int x = threadIdx.x * kUnit; x < p.k; x += kThreads * kUnit) {
          T* const place = rows + i * stride + x;
          store(place, normal(p, load<kUnit>(place), w + x, shift + x, of));
        }
      }
    }
    __syncthreads();
  }

 private:
  template <class Body>  // body(unit, row, its first element)
  __device__ Place for_units(Place at, Some& some, const Body& body) const {
#pragma unroll
    for (auto& unit : some.units) {
      if (at.row < p.m)
        body(unit, at.row, at.round * kRound + static_cast<int>(threadIdx.x) * kUnit);
      if (++at.round * kRound < width) continue;
      at.round = 0;
      ++at.row;
    }
    return at;
  }
};

// A round of a in shared memory: kRound elements of each row from `first` on, zeros past its end.
template <class T, class C, class Memory>
__device__ void fill_round(T* to, const Arguments<T, C>& p, const Memory& shared, int first) {
  constexpr int kUnits = kRound / kUnit;
  for (int u = threadIdx.x; u < p.m * kUnits; u += kThreads) {
    const int i = u / kUnits, x = first + u % kUnits * kUnit;
    T* const place = to + i * (kRound + kPad) + u % kUnits * kUnit;
    if (x >= p.k) {
      *reinterpret_cast<uint4*>(place) = uint4{};
      continue;
    }
    const auto a = load<kUnit>(p.a + i * p.k + x);
    store(place,
          p.norm.w ? normal(p, a, p.norm.w + x, p.norm.shift + x, Measure(p, shared.sums, i)) : a);
  }
}

}  // namespace mt::cuda::few
