// One warp chooses a token's experts; slots find their places a chunk at a time, and rows travel in
// packs.
#include <cmath>

#include "kernels/experts.h"
#include "kernels/router_row.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kSlots = 256;

// A token's logits; what is no number is less than all.
template <class T>
struct Logits {
  const T* logits;
  __device__ float operator()(std::int64_t e) const {
    const float value = to_float(logits[e]);
    return isnan(value) ? -INFINITY : value;
  }
};

// What a token's experts are weighed by, as its warp sees it.
template <class T>
class Scores {
 public:
  __device__ Scores(const T* logits, const RouterRules& shape)
      : z_{logits},
        s_(shape),
        softmax_(z_, shape.scores == RouterScores::softmax_of_all ? shape.experts : 0) {}
  __device__ float operator()(std::int64_t e) const {
    if (s_.scores == RouterScores::softmax_of_all) return softmax_(e);
    return scores_each(s_.scores) ? own_score(z_(e), s_.scores) : z_(e);
  }
  // The derivative of the logarithm of a score that is an expert's own.
  __device__ float slope(std::int64_t e) const { return own_slope(z_(e), s_.scores); }

 private:
  Logits<T> z_;
  const RouterRules& s_;
  RowSoftmax<Logits<T>> softmax_;
};

// The weights before their scale, by one lane: weight[j] of scores(expert[j]).
template <class T>
__device__ void weigh(float* weight, const Scores<T>& scores, const std::int32_t* expert,
                      const RouterRules& s) {
  float most = -INFINITY, sum = scores_each(s.scores) ? float{kLeastScoreSum} : 0;
  for (std::int64_t j = 0; j < s.chosen; ++j) most = fmaxf(most, weight[j] = scores(expert[j]));
  if (s.scores == RouterScores::softmax_of_all) return;
  if (scores_each(s.scores) && s.chosen == 1) return;
  for (std::int64_t j = 0; j < s.chosen; ++j) {
    if (s.scores == RouterScores::softmax_of_chosen) weight[j] = expf(weight[j] - most);
    sum += weight[j];
  }
  for (std::int64_t j = 0; j < s.chosen; ++j) weight[j] /= sum;
}

// A warp's token's experts of largest key, which one lane sorts.  of_groups: of each warp, for each
// group its sum, and whether it is kept.
template <class T>
__device__ void find_experts(std::int32_t* expert, const float* bias, const Scores<T>& scores,
                             float* of_groups, std::int64_t t, const RouterRules& s) {
  float* const sums = of_groups + threadIdx.x / 32 * 2 * s.groups;
  float* const kept = sums + s.groups;
  const std::int64_t size = s.experts / s.groups;
  const auto key = [&](std::int64_t e) {
    if (s.keys_given) return bias[t * s.experts + e];
    const float score = scores(e);
    return bias != nullptr ? score + bias[e] : score;
  };
  if (s.groups > 1) {
    for (std::int64_t g = threadIdx.x % 32; g < s.groups; g += 32) kept[g] = 0;
    for (std::int64_t g = 0; g < s.groups; ++g) {
      float sum = 0;
      Candidate last{0, -1};
      const std::int64_t best = s.keys_of_group();
      for (std::int64_t i = 0; i < best; ++i) {
        last = next_best(g * size, (g + 1) * size, last, key);
        sum += last.key;
      }
      if (threadIdx.x % 32 == 0) sums[g] = sum;
    }
    __syncwarp();
    Candidate last{0, -1};
    for (std::int64_t i = 0; i < s.kept_groups; ++i) {
      last = next_best(0, s.groups, last, [&](std::int64_t g) { return sums[g]; });
      if (threadIdx.x % 32 == 0) kept[last.number] = 1;
    }
    __syncwarp();
  }
  Candidate last{0, -1};
  for (std::int64_t j = 0; j < s.chosen; ++j) {
    last = next_best(0, s.experts, last, [&](std::int64_t e) {
      return s.groups > 1 && kept[e / size] == 0 ? -INFINITY : key(e);
    });
    if (threadIdx.x % 32 == 0) expert[j] = last.number;
  }
  if (threadIdx.x % 32 != 0) return;
  for (std::int64_t j = 1; j < s.chosen; ++j) {
    const std::int32_t moved = expert[j];
    std::int64_t to = j;
    for (; to > 0 && expert[to - 1] > moved; --to) expert[to] = expert[to - 1];
    expert[to] = moved;
  }
}

template <class T>
__global__ __launch_bounds__(kThreads) void choose_kernel(std::int32_t* expert, float* weight,
                                                          const T* logits, const float* bias,
                                                          RouterRules s) {
  const std::int64_t t = blockIdx.x * std::int64_t{kWarps} + threadIdx.x / 32;
  if (t >= s.tokens) return;
  expert += t * s.chosen;
  weight += t * s.chosen;
  extern __shared__ float of_groups[];
  const Scores<T> scores(logits + t * s.experts, s);
  if (!s.given) find_experts(expert, bias, scores, of_groups, t, s);
  bool has_nan = false;
  for (std::int64_t e = threadIdx.x % 32; e < s.experts; e += 32)
    has_nan |= isnan(to_float(logits[t * s.experts + e]));
  has_nan = __any_sync(0xffffffff, has_nan);
  if (threadIdx.x % 32 != 0) return;
  weigh(weight, scores, expert, s);
  for (std::int64_t j = 0; j < s.chosen; ++j)
    weight[j] = has_nan ? NAN : static_cast<float>(s.scale) * weight[j];
}

// Slots are placed a chunk of kSlots at a time: counts[chunk, i] says how many of its slots have
// expert first + i, then how many of the chunks before it have.
__global__ __launch_bounds__(kSlots) void count_kernel(std::int32_t* counts,
                                                       const std::int32_t* expert,
                                                       std::int64_t slots, std::int32_t first,
                                                       std::int32_t count) {
  extern __shared__ std::int32_t of_chunk[];
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kSlots) of_chunk[i] = 0;
  __syncthreads();
  const std::int64_t slot = blockIdx.x * std::int64_t{kSlots} + threadIdx.x;
  const std::int32_t of = slot < slots ? expert[slot] - first : -1;
  if (of >= 0 && of < count) atomicAdd(&of_chunk[of], 1);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kSlots)
    counts[blockIdx.x * std::int64_t{count} + i] = of_chunk[i];
}

// A sum of this lane's x and those of the lanes before it.
__device__ int sum_up_to(int x) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int before = __shfl_up_sync(0xffffffff, x, distance);
    if (static_cast<int>(threadIdx.x) % 32 >= distance) x += before;
  }
  return x;
}

// A warp for each expert: ends[i] = how many slots have expert first + i.
__global__ __launch_bounds__(kThreads) void chunks_kernel(std::int32_t* counts, std::int32_t* ends,
                                                          std::int64_t chunks, std::int32_t count) {
  const int i = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (i >= count) return;
  int total = 0;
  for (std::int64_t begin = 0; begin < chunks; begin += 32) {
    const std::int64_t chunk = begin + threadIdx.x % 32;
    std::int32_t* const at = counts + chunk * count + i;
    const int here = chunk < chunks ? *at : 0, up_to = sum_up_to(here);
    if (chunk < chunks) *at = total + up_to - here;
    total += __shfl_sync(0xffffffff, up_to, 31);
  }
  if (threadIdx.x % 32 == 0) ends[i] = total;
}

// One warp makes counts the places where what was counted ends.
__global__ void end_kernel(std::int32_t* ends, std::int32_t count) {
  int total = 0;
  for (int begin = 0; begin < count; begin += 32) {
    const int i = begin + static_cast<int>(threadIdx.x),
              up_to = total + sum_up_to(i < count ? ends[i] : 0);
    if (i < count) ends[i] = up_to;
    total = __shfl_sync(0xffffffff, up_to, 31);
  }
}

// Slots of an expert lie in their order: those of chunks before, of warps before, of lanes before.
__global__ __launch_bounds__(kSlots) void place_kernel(
    std::int32_t* place, const std::int32_t* counts, const std::int32_t* ends,
    const std::int32_t* expert, std::int64_t slots, std::int32_t first, std::int32_t count) {
  extern __shared__ std::int32_t of_warps[];  // [warps, count]
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = static_cast<int>(threadIdx.x); i < kSlots / 32 * count; i += kSlots) of_warps[i] = 0;
  __syncthreads();
  const std::int64_t slot = blockIdx.x * std::int64_t{kSlots} + threadIdx.x;
  const std::int32_t of = slot < slots ? expert[slot] - first : -1;
  const bool is_here = of >= 0 && of < count;
  const unsigned alike = __match_any_sync(0xffffffff, is_here ? of : -1);
  const int before = __popc(alike & ((1u << lane) - 1));
  if (is_here && before == 0) of_warps[warp * count + of] = __popc(alike);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kSlots) {
    int next = (i == 0 ? 0 : ends[i - 1]) + counts[blockIdx.x * std::int64_t{count} + i];
    for (int w = 0; w < kSlots / 32; ++w) {
      const int here = of_warps[w * count + i];
      of_warps[w * count + i] = next;
      next += here;
    }
  }
  __syncthreads();
  if (slot < slots) place[slot] = is_here ? of_warps[warp * count + of] + before : -1;
}

template <class T>
__global__ __launch_bounds__(kThreads) void backward_kernel(T* d_logits, const float* d_weight,
                                                            const T* logits,
                                                            const std::int32_t* expert,
                                                            RouterRules s) {
  const std::int64_t t = blockIdx.x * std::int64_t{kWarps} + threadIdx.x / 32;
  if (t >= s.tokens) return;
  d_logits += t * s.experts;
  d_weight += t * s.chosen;
  expert += t * s.chosen;
  const Scores<T> scores(logits + t * s.experts, s);
  const bool of_all = s.scores == RouterScores::softmax_of_all,
             of_chosen = s.scores == RouterScores::softmax_of_chosen,
             divided = !of_all && (of_chosen || s.chosen > 1);
  const auto scale = static_cast<float>(s.scale);
  // The largest of the weights before their division, their sum, and the mean of their gradients.
  float most = 0, sum = of_chosen ? 0 : float{kLeastScoreSum}, mean = 0;
  if (of_chosen) {
    most = -INFINITY;
    for (std::int64_t j = 0; j < s.chosen; ++j) most = fmaxf(most, scores(expert[j]));
  }
  const auto undivided = [&](std::int64_t e) {
    return of_chosen ? expf(scores(e) - most) : scores(e);
  };
  for (std::int64_t j = 0; j < s.chosen; ++j) {
    sum += undivided(expert[j]);
    mean += undivided(expert[j]) * d_weight[j];
  }
  if (!divided) sum = 1;
  mean /= sum;
  for (std::int64_t e = threadIdx.x % 32; e < s.experts; e += 32) {
    float d = of_all ? -scale * mean * scores(e) : 0;
    for (std::int64_t j = 0; j < s.chosen; ++j) {
      if (expert[j] != e) continue;
      const float w = scale * undivided(e) / sum;
      d += w * (d_weight[j] - (divided ? mean : 0));
      if (scores_each(s.scores)) d *= scores.slope(e);
    }
    d_logits[e] = static_cast<T>(d);
  }
}

// A pack of a token's row goes to those of its places.
template <int N, class T>
__global__ __launch_bounds__(kThreads) void spread_kernel(T* out, const T* x,
                                                          const std::int32_t* place,
                                                          std::int64_t packs, std::int64_t of_row,
                                                          std::int64_t chosen) {
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i >= packs) return;
  const std::int64_t token = i / of_row, c = i % of_row * N;
  const auto pack = load<N>(x + i * N);
  place += token * chosen;
  for (std::int64_t j = 0; j < chosen; ++j)
    if (place[j] >= 0) store(out + place[j] * of_row * N + c, pack);
}

// A pack of a token's row is the sum of those of its places.
template <int N, class T>
__global__ __launch_bounds__(kThreads) void gather_kernel(T* y, const T* x,
                                                          const std::int32_t* place,
                                                          std::int64_t packs, std::int64_t of_row,
                                                          std::int64_t chosen) {
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i >= packs) return;
  const std::int64_t token = i / of_row, c = i % of_row * N;
  place += token * chosen;
  float sum[N] = {};
#pragma unroll 4
  for (std::int64_t j = 0; j < chosen; ++j) {
    if (place[j] < 0) continue;
    const auto pack = load<N>(x + place[j] * of_row * N + c);
#pragma unroll
    for (int n = 0; n < N; ++n) sum[n] += pack[n];
  }
  store(y + i * N, sum);
}

// body.operator()<N>(packs, packs of a row, blocks) for rows of two arrays.
template <class T, class Body>
void for_packs(std::int64_t rows, std::int64_t cols, bool wide, const Body& body) {
  if (rows * cols == 0) return;
  with_width<kWide<T>>(wide && cols % kWide<T> == 0, [&]<int N>() {
    const std::int64_t packs = rows * cols / N;
    body.template operator()<N>(packs, cols / N,
                                static_cast<unsigned>(ceil_div(packs, std::int64_t{kThreads})));
  });
  check(cudaGetLastError());
}

// A block has a row.
template <class T>
__global__ __launch_bounds__(kThreads) void dots_kernel(float* dots, const T* a, const T* b,
                                                        std::int64_t cols) {
  __shared__ float shared[kWarps];
  a += blockIdx.x * cols;
  b += blockIdx.x * cols;
  float sum = 0;
  for (std::int64_t c = threadIdx.x; c < cols; c += kThreads)
    sum += to_float(a[c]) * to_float(b[c]);
  sum = over_block(sum, shared);
  if (threadIdx.x == 0) dots[blockIdx.x] = sum;
}

unsigned blocks_of_warps(std::int64_t tokens) {
  return static_cast<unsigned>(ceil_div(tokens, std::int64_t{kWarps}));
}

}  // namespace

template <class T>
void choose(std::int32_t* expert, float* weight, const T* logits, const float* bias,
            const RouterRules& s, cudaStream_t stream) {
  if (s.tokens == 0) return;
  const std::size_t bytes =
      s.groups > 1 ? sizeof(float) * 2 * kWarps * static_cast<std::size_t>(s.groups) : 0;
  choose_kernel<<<blocks_of_warps(s.tokens), kThreads, bytes, stream>>>(expert, weight, logits,
                                                                        bias, s);
  check(cudaGetLastError());
}

template <class T>
void choose_backward(T* d_logits, const float* d_weight, const T* logits,
                     const std::int32_t* expert, const RouterRules& s, cudaStream_t stream) {
  if (s.tokens == 0) return;
  backward_kernel<<<blocks_of_warps(s.tokens), kThreads, 0, stream>>>(d_logits, d_weight, logits,
                                                                      expert, s);
  check(cudaGetLastError());
}

std::size_t place_work(const PlaceShape& s) {
  return static_cast<std::size_t>(ceil_div(s.tokens * s.chosen, std::int64_t{kSlots}) * s.count) *
         sizeof(std::int32_t);
}

void place(std::int32_t* place, std::int32_t* ends, const std::int32_t* expert, const PlaceShape& s,
           void* work, cudaStream_t stream) {
  const std::int64_t slots = s.tokens * s.chosen, chunks = ceil_div(slots, std::int64_t{kSlots});
  const auto count = static_cast<std::int32_t>(s.count), first = static_cast<std::int32_t>(s.first);
  const auto blocks = static_cast<unsigned>(chunks);
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(std::int32_t),
                    of_warps = kSlots / 32 * bytes;
  auto* const counts = static_cast<std::int32_t*>(work);
  if (chunks > 0)
    count_kernel<<<blocks, kSlots, bytes, stream>>>(counts, expert, slots, first, count);
  chunks_kernel<<<blocks_of_warps(count), kThreads, 0, stream>>>(counts, ends, chunks, count);
  end_kernel<<<1, 32, 0, stream>>>(ends, count);
  check(cudaFuncSetAttribute(place_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(of_warps)));
  if (chunks > 0)
    place_kernel<<<blocks, kSlots, of_warps, stream>>>(place, counts, ends, expert, slots, first,
                                                       count);
  check(cudaGetLastError());
}

template <class T>
void spread(T* out, const T* x, const std::int32_t* place, std::int64_t cols, const PlaceShape& s,
            cudaStream_t stream) {
  for_packs<T>(s.tokens, cols, aligned(out, x),
               [&]<int N>(std::int64_t packs, std::int64_t of_row, unsigned blocks) {
                 spread_kernel<N>
                     <<<blocks, kThreads, 0, stream>>>(out, x, place, packs, of_row, s.chosen);
               });
}

template <class T>
void gather(T* y, const T* x, const std::int32_t* place, std::int64_t cols, const PlaceShape& s,
            cudaStream_t stream) {
  for_packs<T>(s.tokens, cols, aligned(y, x),
               [&]<int N>(std::int64_t packs, std::int64_t of_row, unsigned blocks) {
                 gather_kernel<N>
                     <<<blocks, kThreads, 0, stream>>>(y, x, place, packs, of_row, s.chosen);
               });
}

template <class T>
void row_dots(float* dots, const T* a, const T* b, std::int64_t rows, std::int64_t cols,
              cudaStream_t stream) {
  if (rows == 0) return;
  dots_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(dots, a, b, cols);
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                                     \
  template void choose(std::int32_t*, float*, const T*, const float*, const RouterRules&,  \
                       cudaStream_t);                                                      \
  template void choose_backward(T*, const float*, const T*, const std::int32_t*,           \
                                const RouterRules&, cudaStream_t);                         \
  template void spread(T*, const T*, const std::int32_t*, std::int64_t, const PlaceShape&, \
                       cudaStream_t);                                                      \
  template void gather(T*, const T*, const std::int32_t*, std::int64_t, const PlaceShape&, \
                       cudaStream_t);                                                      \
  template void row_dots(float*, const T*, const T*, std::int64_t, std::int64_t, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
