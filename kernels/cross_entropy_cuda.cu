#include "kernels/cross_entropy.h"

#include <cstring>
#include <type_traits>

#include "kernels/fast_math.cuh"
#include "kernels/gpu.h"
#include "kernels/ptx.cuh"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr float kLog2e = 1.44269504088896340736f, kLn2 = 0.69314718055994530942f;

struct Problem {
  std::int64_t rows = 0, cols = 0;  // of the logits: columns from `first` on, of `vocab`
  std::int64_t first = 0, vocab = 0, words = 0;  // words: of these columns, the first ones
  const std::int32_t* labels = nullptr;
  const float* row_weight = nullptr;
  float* loss = nullptr;
  float smoothing = 0;  // t of target[c] = (1 - t) [c = label] + t / vocab
};

// Part of a row (Milakov, Gimelshein: arXiv:1805.02867): its largest element or a number at most
// kBehind below, sum 2^(x log2(e) - base(top)), and sum x.  base is rounded, which exponents then
// share, so that it cancels.
constexpr float kBehind = 8;
struct Softmax {
  float top, sum, plain;
};
__device__ float base(float top) { return __fmul_rn(top, kLog2e); }
// 2^(x log2(e) - shift)
__device__ float power(float x, float shift) { return exp2_approx(fmaf(x, kLog2e, -shift)); }
struct Join {
  __device__ Softmax operator()(const Softmax& a, const Softmax& b) const {
    const float top = fmaxf(a.top, b.top), plain = a.plain + b.plain;
    if (top == -INFINITY) return {top, a.sum + b.sum, plain};  // 0 or NaN
    return {
        top,
        a.sum * exp2_approx(base(a.top) - base(top)) + b.sum * exp2_approx(base(b.top) - base(top)),
        plain};
  }
};

// t of Problem::smoothing.
float spread(double smoothing, std::int64_t vocab) {
  const auto n = static_cast<double>(vocab);
  return smoothing > 0 && vocab > 1 ? static_cast<float>(smoothing * n / (n - 1)) : 0;
}

// Every thread gets the whole; `shared` has a place for each warp, and must not be written again
// before the block's next but one barrier.
template <int kThreads>
__device__ Softmax over_block(Softmax x, Softmax* shared) {
  const Join join;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto over_warp = [&] {
    for (int distance = 16; distance > 0; distance /= 2)
      x = join(x, {__shfl_xor_sync(0xffffffff, x.top, distance),
                   __shfl_xor_sync(0xffffffff, x.sum, distance),
                   __shfl_xor_sync(0xffffffff, x.plain, distance)});
  };
  over_warp();
  if (lane == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  x = lane < kThreads / 32 ? shared[lane] : Softmax{-INFINITY, 0, 0};
  over_warp();
  return x;
}

// The largest of many packs; NaN counts as none.  Numbers of 16 bits are compared in pairs.
template <int N, class T>
struct Largest {
  float top = -INFINITY;
  __device__ void add(const Pack<T, N>& x) {
#pragma unroll
    for (int n = 0; n < N; ++n) top = fmaxf(top, x[n]);
  }
  __device__ float value() const { return top; }
};
template <int N, class T>
requires(N > 1 && sizeof(T) == 2) struct Largest<N, T> {
  using Two = std::conditional_t<std::is_same_v<T, bf16>, __nv_bfloat162, __half2>;
  Two top = {static_cast<T>(-INFINITY), static_cast<T>(-INFINITY)};
  __device__ void add(const Pack<T, N>& x) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      Two two;
      std::memcpy(&two, &x.word[i], sizeof(two));
      top = __hmax2(top, two);
    }
  }
  __device__ float value() const { return fmaxf(to_float(top.x), to_float(top.y)); }
};

// Adds a pack to a thread's part of a row, whose base seldom changes, as it may stay behind.
template <int N, bool kSmooth, class T>
__device__ void add_pack(Softmax& part, const Pack<T, N>& x) {
  Largest<N, T> largest;
  largest.add(x);
  const float top = largest.value();
  if (top > part.top + kBehind) {
    part.sum *= exp2_approx(base(part.top) - base(top));
    part.top = top;
  }
  const float shift = part.top > -INFINITY ? base(part.top) : 0;  // 0: of -infinity and NaN alone
#pragma unroll
  for (int n = 0; n < N; ++n) {
    part.sum += power(x[n], shift);
    if constexpr (kSmooth) part.plain += x[n];
  }
}

// Adds those of a pack that are words, the first `left`.
template <int N, bool kSmooth, class T>
__device__ void add_words(Softmax& part, const Pack<T, N>& x, std::int64_t left) {
  if (left >= N) return add_pack<N, kSmooth>(part, x);
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const float one[1] = {x[n]};
    if (n < left) add_pack<1, kSmooth>(part, Pack<T, 1>::of(one));
  }
}

// What follows from a row's sums: its loss, and its gradient pack by pack.
template <int N, bool kSmooth>
struct Gradient {
  float weight, shift, factor, everywhere, at_label;

  __device__ Gradient(const Problem& p, const Softmax& all, std::int64_t row)
      : weight(p.row_weight ? p.row_weight[row] : 0),
        shift(base(all.top)),
        factor(weight / all.sum),
        everywhere(weight * p.smoothing / float(p.vocab)),
        at_label(weight * (1 - p.smoothing)) {}

  // label: which element of the pack is the row's label, others for none; left: how many are words.
  template <class T>
  __device__ void operator()(T* to, const Pack<T, N>& x, std::int64_t label,
                             std::int64_t left) const {
    float gradient[N];
#pragma unroll
    for (int n = 0; n < N; ++n) {
      gradient[n] = power(x[n], shift) * factor;
      if constexpr (kSmooth) gradient[n] -= everywhere;
    }
    if (0 <= label && label < N) {
#pragma unroll
      for (int n = 0; n < N; ++n)
        if (n == label) gradient[n] -= at_label;
    }
    if (left < N) {
#pragma unroll
      for (int n = 0; n < N; ++n)
        if (n >= left) gradient[n] = 0;
    }
    store(to, gradient);
  }
};

__device__ float loss_of(const Problem& p, const Softmax& all, float label) {
  const float mean = p.smoothing > 0 ? all.plain / float(p.vocab) : label;
  const float rounding = fmaf(all.top, kLog2e, -base(all.top));  // what base() rounded away
  return logf(all.sum) - rounding * kLn2 + (all.top - label) + p.smoothing * (label - mean);
}

// --- Any row: read twice ------------------------------------------------------------------------

constexpr int kAnyThreads = 512;

// body(pack, column) of this thread's packs of a row, several of which are on their way at once.
template <int N, class T, class Body>
__device__ void for_packs(const T* row, std::int64_t cols, const Body& body) {
  constexpr int kUnroll = 4;
  constexpr std::int64_t kStep = std::int64_t{kAnyThreads} * N;
  for (std::int64_t c = static_cast<std::int64_t>(threadIdx.x) * N; c < cols;
       c += kUnroll * kStep) {
    Pack<T, N> packs[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (c + u * kStep < cols) packs[u] = load<N>(row + c + u * kStep);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (c + u * kStep < cols) body(packs[u], c + u * kStep);
  }
}

template <int N, bool kSmooth, class T>
__device__ Softmax softmax_of(const T* row, std::int64_t words, Softmax* shared) {
  Softmax all{-INFINITY, 0, 0};
  for_packs<N>(row, words, [&](const Pack<T, N>& x, std::int64_t c) {
    add_words<N, kSmooth>(all, x, words - c);
  });
  return over_block<kAnyThreads>(all, shared);
}

template <int N, bool kSmooth, class T>
__device__ void write_gradient(T* row, const Problem& p, const Softmax& all) {
  const std::int64_t label = p.labels[blockIdx.x] - p.first;
  const Gradient<N, kSmooth> gradient(p, all, blockIdx.x);
  for_packs<N>(row, p.cols, [&](const Pack<T, N>& x, std::int64_t c) {
    gradient(row + c, x, label - c, p.words - c);
  });
}

template <int N, bool kSmooth, class T>  // one block a row
__global__ __launch_bounds__(kAnyThreads) void any_kernel(T* logits, Problem p) {
  __shared__ Softmax shared[32];
  T* row = logits + blockIdx.x * p.cols;
  const Softmax all = softmax_of<N, kSmooth>(row, p.words, shared);
  if (threadIdx.x == 0) p.loss[blockIdx.x] = loss_of(p, all, to_float(row[p.labels[blockIdx.x]]));
  if (!p.row_weight) return;
  __syncthreads();  // the label's logit has been read
  write_gradient<N, kSmooth>(row, p, all);
}

// --- Columns of a vocabulary that ranks share ---------------------------------------------------

template <int N, class T>  // one block a row
__global__ __launch_bounds__(kAnyThreads) void sums_kernel(float* sums, const T* logits,
                                                           Problem p) {
  __shared__ Softmax shared[32];
  const T* row = logits + blockIdx.x * p.cols;
  const Softmax all = softmax_of<N, true>(row, p.words, shared);
  if (threadIdx.x != 0) return;
  const std::int64_t label = p.labels[blockIdx.x] - p.first;
  const float parts[4] = {all.top, all.sum,
                          label >= 0 && label < p.words ? to_float(row[label]) : 0, all.plain};
  for (int i = 0; i < 4; ++i) sums[i * p.rows + blockIdx.x] = parts[i];
}

template <int N, bool kSmooth, class T>  // one block a row
__global__ __launch_bounds__(kAnyThreads) void part_kernel(T* logits, Problem p, const float* sums,
                                                           int ranks) {
  Softmax all{-INFINITY, 0, 0};
  float label = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const float* of_rank = sums + std::int64_t{rank} * 4 * p.rows + blockIdx.x;
    all = Join{}(all, {of_rank[0], of_rank[p.rows], of_rank[3 * p.rows]});
    label += of_rank[2 * p.rows];
  }
  if (threadIdx.x == 0) p.loss[blockIdx.x] = loss_of(p, all, label);
  if (p.row_weight) write_gradient<N, kSmooth>(logits + blockIdx.x * p.cols, p, all);
}

// --- Rows that fit on a multiprocessor: read once -----------------------------------------------

// Blocks stay.  A thread holds every kThreads-th pack of a row: kHeld in registers, the others in
// shared memory.  Where the gradient of a pack has left, the pack of the next row arrives, and is
// added to that row's sum kLag packs later: reading, writing and computing go on all the time.
constexpr int kLag = 2;

template <int N, int kThreads, int kHeld, bool kSmooth, class T>
__global__ __launch_bounds__(kThreads, 1024 / kThreads) void resident_kernel(T* logits, Problem p,
                                                                             int slots) {
  extern __shared__ uint4 slot[];  // [slots, kThreads]
  __shared__ Softmax shared[2][32];
  const std::int64_t packs = p.cols / N;
  const auto pack_of = [&](int j) { return static_cast<std::int64_t>(threadIdx.x) + j * kThreads; };
  const auto in_slot = [&](int j) {
    return load<N>(reinterpret_cast<const T*>(slot + j * kThreads + threadIdx.x));
  };
  const int full =
      static_cast<int>(min(std::int64_t{slots}, (packs + kThreads - 1 - threadIdx.x) / kThreads));
  Pack<T, N> held[kHeld > 0 ? kHeld : 1];
  const auto holds = [&](int h) { return pack_of(slots + h) < packs; };
  const auto fetch_slot = [&](const T* row, int j) {
    copy_16_bytes(slot + j * kThreads + threadIdx.x, row + pack_of(j) * N);
  };
  const auto fetch_held = [&](const T* row, int h) {
    if (holds(h)) held[h] = load<N>(row + pack_of(slots + h) * N);
  };
  const auto add = [&](Softmax& part, const Pack<T, N>& x, int j) {
    add_words<N, kSmooth>(part, x, p.words - pack_of(j) * N);
  };
  // Adds the packs that arrive last to a part of the softmax, in the order in which they come.
  const auto add_last = [&](Softmax& part) {
#pragma unroll
    for (int h = 0; h < kHeld; ++h)
      if (holds(h)) add(part, held[h], slots + h);
    const int first = max(0, full - kLag);
    copies_wait<kLag / 2>();
    for (int j = first; j < full - kLag / 2; ++j) add(part, in_slot(j), j);
    copies_wait<0>();
    for (int j = max(first, full - kLag / 2); j < full; ++j) add(part, in_slot(j), j);
  };

  T* row = logits + blockIdx.x * p.cols;
#pragma unroll
  for (int h = 0; h < kHeld; ++h) fetch_held(row, h);
  for (int j = 0; j < full; ++j) {
    fetch_slot(row, j);
    copies_commit();
  }
  Softmax part{-INFINITY, 0, 0};
  copies_wait<kLag>();
  for (int j = 0; j < full - kLag; ++j) add(part, in_slot(j), j);
  int parity = 0;
  for (std::int64_t r = blockIdx.x; r < p.rows; r += gridDim.x, parity ^= 1) {
    add_last(part);
    const Softmax all = over_block<kThreads>(part, shared[parity]);
    part = {-INFINITY, 0, 0};
    const Gradient<N, kSmooth> gradient(p, all, r);
    const std::int64_t label = p.labels[r];
    const auto finish = [&](const Pack<T, N>& x, int j) {
      const std::int64_t c = pack_of(j) * N;
      if (c <= label && label < c + N) {
#pragma unroll
        for (int n = 0; n < N; ++n)
          if (c + n == label) p.loss[r] = loss_of(p, all, x[n]);
      }
      if (p.row_weight) gradient(row + c, x, label - c, p.words - c);
    };
    T* next = row + gridDim.x * p.cols;
    const bool goes_on = r + gridDim.x < p.rows;
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      if (holds(h)) finish(held[h], slots + h);
      if (goes_on) fetch_held(next, h);
    }
    for (int j = 0; j < full; ++j) {
      finish(in_slot(j), j);
      if (!goes_on) continue;
      fetch_slot(next, j);
      copies_commit();
      copies_wait<kLag>();
      if (j >= kLag) add(part, in_slot(j - kLag), j - kLag);
    }
    row = next;
  }
}

// A slot is 16 KiB of a Hopper multiprocessor's 227 KiB, which one block of 1024 threads has, or
// two of 512 share.
constexpr int kMostSlots = 13;
constexpr std::size_t kOwnBytes = 1 << 10;  // that a block has besides

// False, and nothing is launched, where a row does not fit.
template <int kThreads, int kHeld, class T>
bool launch_resident(T* logits, const Problem& p, cudaStream_t stream) {
  const std::int64_t slots = max(std::int64_t{0}, ceil_div(p.cols / kWide<T>, kThreads) - kHeld);
  const auto bytes = static_cast<std::size_t>(slots) * kThreads * sizeof(uint4);
  if (slots > kMostSlots || bytes + kOwnBytes > most_shared_bytes()) return false;
  const auto kernel = p.smoothing > 0 ? resident_kernel<kWide<T>, kThreads, kHeld, true, T>
                                      : resident_kernel<kWide<T>, kThreads, kHeld, false, T>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)));
  const auto blocks =
      static_cast<unsigned>(min(p.rows, std::int64_t{multiprocessors()} * (1024 / kThreads)));
  kernel<<<blocks, kThreads, bytes, stream>>>(logits, p, static_cast<int>(slots));
  return true;
}

}  // namespace

template <class T>
void cross_entropy(float* loss, T* logits, const std::int32_t* labels, const float* row_weight,
                   std::int64_t rows, std::int64_t cols, std::int64_t vocab, double smoothing,
                   cudaStream_t stream) {
  if (rows == 0) return;
  const Problem p{rows, cols, 0, vocab, vocab, labels, row_weight, loss, spread(smoothing, vocab)};
  const bool wide = aligned(logits) && cols % kWide<T> == 0;
  const bool resident = wide && (launch_resident<512, 0>(logits, p, stream) ||
                                 launch_resident<1024, 4>(logits, p, stream));
  if (!resident)
    with_width<kWide<T>>(wide, [&]<int N>() {
      const auto kernel = p.smoothing > 0 ? any_kernel<N, true, T> : any_kernel<N, false, T>;
      kernel<<<static_cast<unsigned>(rows), kAnyThreads, 0, stream>>>(logits, p);
    });
  check(cudaGetLastError());
}

template <class T>
void cross_entropy_sums(float* sums, const T* logits, const std::int32_t* labels,
                        const VocabularyPart& part, cudaStream_t stream) {
  if (part.rows == 0) return;
  const Problem p{part.rows, part.cols, part.first, part.vocab, part.words(), labels};
  with_width<kWide<T>>(aligned(logits) && part.cols % kWide<T> == 0, [&]<int N>() {
    sums_kernel<N><<<static_cast<unsigned>(part.rows), kAnyThreads, 0, stream>>>(sums, logits, p);
  });
  check(cudaGetLastError());
}

template <class T>
void cross_entropy_part(float* loss, T* logits, const std::int32_t* labels, const float* row_weight,
                        const float* sums, const VocabularyPart& part, double smoothing,
                        cudaStream_t stream) {
  if (part.rows == 0) return;
  const Problem p{part.rows,  part.cols,    part.first,
                  part.vocab, part.words(), labels,
                  row_weight, loss,         spread(smoothing, part.vocab)};
  with_width<kWide<T>>(aligned(logits) && part.cols % kWide<T> == 0, [&]<int N>() {
    const auto kernel = p.smoothing > 0 ? part_kernel<N, true, T> : part_kernel<N, false, T>;
    kernel<<<static_cast<unsigned>(part.rows), kAnyThreads, 0, stream>>>(logits, p, sums,
                                                                         part.ranks);
  });
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                                           \
  template void cross_entropy(float*, T*, const std::int32_t*, const float*, std::int64_t,       \
                              std::int64_t, std::int64_t, double, cudaStream_t);                 \
  template void cross_entropy_sums(float*, const T*, const std::int32_t*, const VocabularyPart&, \
                                   cudaStream_t);                                                \
  template void cross_entropy_part(float*, T*, const std::int32_t*, const float*, const float*,  \
                                   const VocabularyPart&, double, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
