// Few rows on the GPU, where a kernel takes some microseconds and whatever is worked out after the
// one ahead has ended costs.  16-bit types in whole units of 16 bytes go to the matrix units, b's
// rows being the left operand: a block, one on each multiprocessor, takes tiles of 16 rows of b,
// each of its warps every eighth run of 64 of their elements.  What it will multiply next is on its
// way to shared memory, the first of it before the kernel ahead has ended: not all that there is
// room for, because what that kernel and this one's start wait for would queue behind it.  a lies
// in shared memory, normalised.  Other types and places take a plain kernel, a warp for a row of b.
#include <algorithm>
#include <limits>

#include "kernels/dependent.cuh"
#include "kernels/fast_math.cuh"
#include "kernels/few_rows.h"
#include "kernels/ptx.cuh"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kWarps = 8, kThreads = 32 * kWarps;
constexpr int kRun = 64;               // elements of a row that a warp takes at a time: 128 bytes
constexpr int kSlice = kRun * kWarps;  // ... a block
constexpr int kAhead = 6;              // slices of a tile on their way
constexpr int kEarly = 2;              // of them before the kernel ahead has ended
constexpr int kRoundSlices = 4, kRound = kRoundSlices * kSlice;  // of a, where it is not held whole
constexpr int kPad = 32;                     // elements between rows of a in shared memory
constexpr int kPiece = 1024;                 // bytes that a thread brings into the L2
constexpr std::size_t kMostHeld = 80 << 10;  // bytes of a in shared memory

__device__ float gelu(float z) {
  return z * sigmoid(1.5957691216057308f * z * (1 + 0.044715f * z * z));
}

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

// A problem in few bytes, what is looked at first in front: a kernel's first look at each line of
// its parameters takes time.
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

// What is added to elements (i, j) and (i, other): fetched before their sums are there.
struct Added {
  float bias[2] = {}, residual[2] = {};

  template <class T, class C>
  __device__ Added(const Arguments<T, C>& p, std::int64_t i, std::int64_t j, std::int64_t other) {
    const std::int64_t column[2] = {j, other};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (i >= p.m || column[r] >= p.n) continue;
      if (p.bias) bias[r] = to_float(p.bias[column[r]]);
      if (p.residual) residual[r] = to_float(p.residual[i * p.n + column[r]]);
    }
  }
};

// c and at from the sum z of element (i, j).
template <class T, class C>
__device__ void finish(const Arguments<T, C>& p, std::int64_t i, std::int64_t j, float z,
                       float bias, float residual) {
  if (j >= p.n) return;
  z += bias;
  const std::int64_t place = i * p.n + j;
  if (p.at) p.at[place] = static_cast<T>(z);
  if (p.gelu) z = gelu(z);
  if (p.residual) z += residual;
  p.c[place] = static_cast<C>(z);
}
// ... of elements (i, j) and (i, n/2 + j).
template <class T, class C>
__device__ void finish_swiglu(const Arguments<T, C>& p, std::int64_t i, std::int64_t j, float gate,
                              float up, const Added& added) {
  const std::int64_t half = p.n / 2;
  if (j >= half) return;
  gate += added.bias[0];
  up += added.bias[1];
  if (p.at) {
    p.at[i * p.n + j] = static_cast<T>(gate);
    p.at[i * p.n + half + j] = static_cast<T>(up);
  }
  p.c[i * half + j] = static_cast<C>(gate * sigmoid(gate) * up);
}

constexpr int kUnit = 8;  // elements of 16 bytes

template <int kTiles>
struct alignas(16) Shared {
  float part[2][kWarps][kTiles][32][4];  // sums of the warps, by turns
  float sums[2][kFewRows][kWarps];       // of the norm: of elements, of squares
};

// The sum over each row of f(element, row), in `sums`; all threads, each the same elements whatever
// m is.
template <class T, class F>
__device__ void row_sums(float (&sums)[kFewRows][kWarps], const T* rows, int stride, int m, int k,
                         const F& f) {
  for (int i = 0; i < m; ++i) {
    float sum = 0;
    for (int x = threadIdx.x * kUnit; x < k; x += kThreads * kUnit) {
      const auto pack = load<kUnit>(rows + std::int64_t{i} * stride + x);
#pragma unroll
      for (int n = 0; n < kUnit; ++n) sum += f(pack[n], i);
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

// Of rows that lie `stride` apart.  A thread reads what it wrote itself in Held::fill().
template <class T, class C>
__device__ void measure_rows(const Arguments<T, C>& p, const T* rows, int stride,
                             float (&sums)[2][kFewRows][kWarps]) {
  if (!p.norm.centred)
    return row_sums(sums[1], rows, stride, p.m, p.k, [](float x, int) { return x * x; });
  row_sums(sums[0], rows, stride, p.m, p.k, [](float x, int) { return x; });
  const auto count = static_cast<float>(p.k);
  row_sums(sums[1], rows, stride, p.m, p.k, [&](float x, int row) {
    const float centred = x - total(sums[0][row]) / count;
    return centred * centred;
  });
}

// A unit of a row, normalised; w and shift: where those of its place are.
template <class T, class C>
__device__ Pack<T, kUnit> normal(const Arguments<T, C>& p, const Pack<T, kUnit>& a, const T* w,
                                 const T* shift, const Measure& of) {
  const auto scale = load<kUnit>(w);
  float y[kUnit];
#pragma unroll
  for (int n = 0; n < kUnit; ++n) y[n] = (a[n] - of.mean) * of.rstd * (scale[n] + p.norm.offset);
  if (p.norm.shift) {
    const auto added = load<kUnit>(shift);
#pragma unroll
    for (int n = 0; n < kUnit; ++n) y[n] += added[n];
  }
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

// What a block multiplies next of b, on its way into shared memory.  A warp copies for itself
// alone, whole lines of 128 bytes: of each slice, its run of the tile's 16 rows (of silu: 8 rows
// and what belongs to them in the second half).  In an odd row the halves of a line change places,
// so that the banks of those that a warp reads together differ.
template <class T, class C>
class Feed {
 public:
  static constexpr std::size_t kBytes = std::size_t{kAhead} * 16 * kSlice * sizeof(T);

  __device__ Feed(const Arguments<T, C>& p, unsigned char* memory)
      : b_(p.b),
        k_(p.k),
        columns_(p.columns),
        second_(p.swiglu ? std::int64_t{p.n / 2 - p.columns.step} * p.k : 0) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    memory += warp * kWarpBytes;
    first_ = warp * kRun + lane % 8 * 8;
    to_ = memory + place_in(lane / 8, lane % 8);
    for (int half = 0; half < 2; ++half)
      from_half_[half] = memory + place_in(lane / 4, lane % 4 + 4 * half);
    begin_pass(0);
  }
  // The oldest slice: [half of the run][row lane / 4 or the eighth behind it], units lane % 4.
  __device__ void take(uint4 (&units)[2][2]) const {
    copies_wait<kAhead - 1>();
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int other = 0; other < 2; ++other)
        units[half][other] =
            *reinterpret_cast<const uint4*>(from_half_[half] + slot_ + other * 8 * kLine);
  }
  // One more slice, in the place of what was taken.
  __device__ void fetch() {
    __syncwarp();
    if (there_ != 0) {
#pragma unroll
      for (int n = 0; n < kCopies; ++n)
        copy_16_bytes_or_zeros(to_ + slot_ + n * 4 * kLine,
                               from_ + n * 4 * k_ + (n < kCopies / 2 ? 0 : second_),
                               x_ < k_ && there_ >> n & 1 ? 16 : 0);
      x_ += kSlice;
      from_ += kSlice;
      if (x_ - first_ >= k_) begin_pass(pass_ + 1);
    }
    copies_commit();
    slot_ = slot_ == (kAhead - 1) * kSlotBytes ? 0 : slot_ + kSlotBytes;
  }

 private:
  static constexpr int kLine = kRun * sizeof(T), kWarpBytes = 16 * kLine;
  static constexpr int kSlotBytes = kWarpBytes * kWarps;
  static constexpr int kCopies = 4;  // of a thread, of a slice: of every fourth row

  __device__ static int place_in(int row, int unit) {
    return row * kLine + (unit ^ row % 2 * 4) * 16;
  }
  __device__ void begin_pass(int pass) {
    const int row = static_cast<int>(threadIdx.x) % 32 / 8, width = columns_.width(pass);
    pass_ = pass;
    x_ = first_;
    from_ = b_ + std::int64_t{columns_.first(pass) + row} * k_ + first_;
    there_ = 0;
    for (int n = 0; n < kCopies; ++n) {
      const int of_tile = row + 4 * n;
      const int of_half = of_tile < columns_.step ? of_tile : of_tile - columns_.step;
      there_ |= (of_half < width ? 1 : 0) << n;
    }
  }

  const T* const b_;
  const int k_;
  const Columns columns_;
  const std::int64_t second_;  // of silu: elements from the first half of a tile to the second
  unsigned char* to_;          // in the first slot
  const unsigned char* from_half_[2];
  const T* from_;
  int x_, first_, pass_, there_, slot_ = 0;  // there_: a bit for each row that is
};

template <int kTiles, class T, class C>
__global__ __launch_bounds__(kThreads, 2) void matrix_kernel(const Arguments<T, C> p) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& shared = *reinterpret_cast<Shared<kTiles>*>(bytes);
  using Weights = Feed<T, C>;
  let_next_kernel_begin();
  T* const a = reinterpret_cast<T*>(bytes + sizeof(Shared<kTiles>) + Weights::kBytes);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int slices = (p.k + kSlice - 1) / kSlice;
  const int rounds = (slices + kRoundSlices - 1) / kRoundSlices;
  const int offset = warp * kRun + lane % 4 * 8;  // of this thread's units in a slice

  // Either all of a is held, or a round of it at a time.
  const bool whole = p.held >= rounds;
  const int width = p.held * kRound, stride = width + kPad;
  const Held<T, C> all(p, a, width);
  if (whole) all.fetch_norm();
  copies_commit();
  Weights weights(p, bytes + sizeof(Shared<kTiles>));
#pragma unroll
  for (int n = 0; n < kEarly; ++n) weights.fetch();
  if (const int piece = static_cast<int>(blockIdx.x) * 32 + lane;
      warp == 0 && piece < p.ahead_pieces)
    fetch_to_l2(p.ahead + std::int64_t{piece} * kPiece, kPiece);
  wait_for_kernel_before();
  typename Held<T, C>::Some some;
  if (whole) some = all.fetch({});
#pragma unroll
  for (int n = kEarly; n < kAhead; ++n) weights.fetch();
  if (whole) {
    all.put_all(some);
    copies_wait<kAhead>();  // the norm's
    all.normalise(shared);
  } else if (p.norm.w) {
    measure_rows(p, p.a, p.k, shared.sums);
  }

  // The place in the tile that this thread finishes.
  const int t = threadIdx.x / 64, place = threadIdx.x % 64 / 2, column = threadIdx.x % 2;
  const int i = t < kTiles ? t * 8 + place % 4 * 2 + column : kFewRows;
  int turn = 0;
  const Columns& columns = p.columns;
  for (int pass = 0; columns.width(pass) > 0; ++pass, turn ^= 1) {
    const int j = columns.first(pass) + place / 4, end = columns.first(pass) + columns.width(pass);
    const Added added(p, i, j, p.swiglu ? p.n / 2 + j : j + 8);
    float sums[2][kTiles][4] = {};  // of the halves of the warp's runs
    for (int slice = 0; slice < slices; ++slice) {
      if (!whole && slice % kRoundSlices == 0) {
        __syncthreads();
        fill_round(a, p, shared, slice * kSlice);
        __syncthreads();
      }
      const T* const from = a + (whole ? slice : slice % kRoundSlices) * kSlice + offset;
      uint4 unit[2][2], x[2][kTiles] = {};
      weights.take(unit);
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int r = 0; r < kTiles; ++r) {
          const int row = r * 8 + lane / 4;
          if (row < p.m)
            x[half][r] = *reinterpret_cast<const uint4*>(from + row * stride + half * 32);
        }
      weights.fetch();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 &one = unit[half][0], &other = unit[half][1];
#pragma unroll
        for (int r = 0; r < kTiles; ++r) {
          mma<T>(sums[half][r], {one.x, other.x, one.y, other.y}, x[half][r].x, x[half][r].y);
          mma<T>(sums[half][r], {one.z, other.z, one.w, other.w}, x[half][r].z, x[half][r].w);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kTiles; ++r)
      *reinterpret_cast<float4*>(shared.part[turn][warp][r][lane]) =
          make_float4(sums[0][r][0] + sums[1][r][0], sums[0][r][1] + sums[1][r][1],
                      sums[0][r][2] + sums[1][r][2], sums[0][r][3] + sums[1][r][3]);
    __syncthreads();
    if (i < p.m && j < end) {
      float z[2] = {};
#pragma unroll
      for (int w = 0; w < kWarps; ++w)
        for (int r = 0; r < 2; ++r) z[r] += shared.part[turn][w][t][place][2 * r + column];
      if (p.swiglu) {
        finish_swiglu(p, i, j, z[0], z[1], added);
      } else {
        finish(p, i, j, z[0], added.bias[0], added.residual[0]);
        if (j + 8 < end) finish(p, i, j + 8, z[1], added.bias[1], added.residual[1]);
      }
    }
    __syncwarp();
  }
}

// A warp for element j of all rows (and of silu for n/2 + j).
template <int N, class T, class C>
__global__ __launch_bounds__(kThreads) void plain_kernel(const Arguments<T, C> p) {
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t j = blockIdx.x * std::int64_t{kWarps} + threadIdx.x / 32;
  const std::int64_t half = p.n / 2;
  if (j >= (p.swiglu ? half : p.n)) return;
  const auto dot = [&](std::int64_t i, std::int64_t row) {
    float sum = 0;
    for (std::int64_t x = threadIdx.x % 32 * N; x < p.k; x += 32 * N) {
      const auto a = load<N>(p.a + i * p.k + x);
      const auto b = load<N>(p.b + row * p.k + x);
#pragma unroll
      for (int n = 0; n < N; ++n) sum += a[n] * b[n];
    }
    return over_lanes(sum);
  };
  for (std::int64_t i = 0; i < p.m; ++i) {
    const float z = dot(i, j), up = p.swiglu ? dot(i, half + j) : 0;
    if (threadIdx.x % 32 == 0) {
      const Added added(p, i, j, half + j);
      if (p.swiglu)
        finish_swiglu(p, i, j, z, up, added);
      else
        finish(p, i, j, z, added.bias[0], added.residual[0]);
    }
    __syncwarp();
  }
}

template <class T, class C>
bool whole_units(const FewRows<T, C>& p) {
  return p.k % (16 / sizeof(T)) == 0 && aligned(p.a, p.b);
}

template <int kTiles, class T, class C>
void launch_matrix(const FewRows<T, C>& p, cudaStream_t stream) {
  const auto rounds = static_cast<int>(ceil_div(p.k, kRound));
  // Of a, and if it is held as a whole also of the norm.
  const auto bytes = [&](int held) {
    const int of_norm =
        held < rounds || p.norm.w == nullptr ? 0 : (p.norm.shift ? 2 : 1) * held * kRound;
    return static_cast<std::size_t>(p.m * (held * kRound + kPad) + of_norm) * sizeof(T);
  };
  const int held = bytes(rounds) <= kMostHeld ? rounds : 1;
  int device = 0, multiprocessors = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const auto kernel = matrix_kernel<kTiles, T, C>;
  constexpr std::size_t kFixed = sizeof(Shared<kTiles>) + Feed<T, C>::kBytes;
  const std::size_t shared = kFixed + bytes(held);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(kFixed + kMostHeld)));
  leave_memory_shared(kernel);
  launch_dependent(kernel, multiprocessors, kThreads, shared, stream,
                   Arguments<T, C>(p, multiprocessors, held));
}

}  // namespace

template <class T, class C>
bool few_rows_norms(const FewRows<T, C>& p) {
  return sizeof(T) == 2 && whole_units(p) && aligned(p.norm.w, p.norm.shift);
}

template <class T, class C>
void few_rows(const FewRows<T, C>& p, cudaStream_t stream) {
  if (p.m * p.n == 0) return;
  if (std::max(p.n, p.k) > std::numeric_limits<int>::max())
    fail(Exit::internal, "few_rows: ", p.n, " x ", p.k);
  if constexpr (sizeof(T) == 2)
    if (whole_units(p)) return p.m <= 8 ? launch_matrix<1>(p, stream) : launch_matrix<2>(p, stream);
  if (p.norm.w) fail(Exit::internal, "few_rows: a norm of ", p.k, " elements");
  const bool swiglu = p.then == FewRows<T, C>::Then::swiglu;
  with_width<kWide<T>>(whole_units(p), [&]<int N>() {
    launch_dependent(plain_kernel<N, T, C>, ceil_div(swiglu ? p.n / 2 : p.n, kWarps), kThreads, 0,
                     stream, Arguments<T, C>(p, 1, 0));
  });
}

#define INSTANTIATE(T, C)                             \
  template bool few_rows_norms(const FewRows<T, C>&); \
  template void few_rows(const FewRows<T, C>&, cudaStream_t)
INSTANTIATE(float, float);
INSTANTIATE(bf16, bf16);
INSTANTIATE(bf16, float);
INSTANTIATE(fp16, fp16);
INSTANTIATE(fp16, float);

}  // namespace mt::cuda
