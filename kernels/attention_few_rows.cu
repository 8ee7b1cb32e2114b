// Attention's forward where a key head has at most 16 queries, as when a text is continued: reading
// the keys takes the time, so blocks share them out.  Each has a part of kPart keys, and each of
// its warps every so many tiles of 16 of them on its own, with the next one on its way where there
// is room; it leaves the part's output and lse, and combine_kernel joins the parts.  Parts begin at
// multiples of kPart, so that a sequence's bits depend neither on what else is in the batch nor on
// the cache's capacity.
#include <algorithm>

#include "kernels/attention_rows.cuh"
#include "kernels/dependent.cuh"

namespace mt::cuda {
namespace {

constexpr int kKeys = 16, kPart = 256;  // of a tile, of a part
constexpr int kJoiners = 8;             // warps that join the parts of a row

template <class T, int kHeadDim, Code kOf = kCode>
struct Shared {
  static constexpr int kStages = kRoomy<kOf> ? 2 : 1;
  // A block has as many warps as leave room for several blocks on a multiprocessor.
  static constexpr int kWarps = std::clamp(1024 / kHeadDim / static_cast<int>(sizeof(T)), 1, 4);
  struct Stage {
    Tile<T, kKeys, kHeadDim> k, v;
  };
  Tile<T, 16, kHeadDim> q;
  union {
    Stage stages[kWarps][kStages];
    float o[kWarps][16][row_stride<float>(kHeadDim)];
  };
  float max[kWarps][16], sum[kWarps][16];
  typename Left<T, kKeys>::Strip strips[kWarps];
};

template <class T, int kHeadDim>
__global__ void __launch_bounds__(32 * Shared<T, kHeadDim>::kWarps)
    part_kernel(const AttentionArguments a, const AttentionForward<T> t,
                const AttentionParts parts) {
  using Memory = Shared<T, kHeadDim>;
  constexpr int kWarps = Memory::kWarps;
  extern __shared__ __align__(16) unsigned char bytes[];
  Memory& shared = *reinterpret_cast<Memory*>(bytes);
  let_next_kernel_begin();
  const int groups = a.sizes.sequences * a.sizes.kv_heads, part = blockIdx.x / groups;
  const HeadGroup at(a, blockIdx.x % groups);
  const int warp = threadIdx.x / 32, count = at.rows();
  const int first = max(at.first(0), part * kPart);
  const int last = min(at.last(count - 1), (part + 1) * kPart - 1);
  // Most of it is older than the kernel before, which may write the last keys.
  for (int key = first + threadIdx.x; key <= last; key += blockDim.x)
    for (const T* const row : {t.k + at.key_place(key), t.v + at.key_place(key)})
      for (int c = 0; c < a.sizes.head_dim; c += 128 / static_cast<int>(sizeof(T)))
        asm volatile("prefetch.global.L2 [%0];" ::"l"(row + c));
  wait_for_kernel_before();
  if (first > last) {  // a part that this sequence does not reach, or no longer sees
    if (threadIdx.x < count) parts.lse[at.lse_place(threadIdx.x) * parts.count + part] = -kInfinity;
    return;
  }
  // The part's tiles, of which this warp takes every kWarps-th.
  const int begin = first / kKeys + warp, end = last / kKeys + 1;
  const auto load = [&](int n) {
    auto& stage = shared.stages[warp][n / kWarps % Memory::kStages];
    load_keys<32>(stage.k, t.k, at, n * kKeys, lane());
    load_keys<32>(stage.v, t.v, at, n * kKeys, lane());
    copies_commit();
  };
  load_queries<32 * kWarps>(shared.q, t.q, at, 0);
  copies_commit();
  if (Memory::kStages == 2 && begin < end) load(begin);
  copies_wait();
  __syncthreads();

  // Tiles [begin_all, end_all) hold only keys that every row sees.
  const int begin_all = (at.first(count - 1) + kKeys - 1) / kKeys;
  const int end_all = (at.last(0) + 1) / kKeys;
  WarpRows<kHeadDim, kKeys> rows(at, 0);
  for (int n = begin; n < end; n += kWarps) {
    if (Memory::kStages == 1) {
      __syncwarp();  // the tile before has been read
      load(n);
    }
    copies_wait();
    __syncwarp();  // the tile is there, and the one before has been read
    if (Memory::kStages == 2 && n + kWarps < end) load(n + kWarps);
    auto& stage = shared.stages[warp][n / kWarps % Memory::kStages];
    rows.multiply_keys(shared.q.row(0), stage.k.row(0));
    if (a.sizes.softcap > 0) rows.cap();
    if (n < begin_all || n >= end_all) rows.mask(n * kKeys);
    rows.softmax();
    rows.multiply_values(stage.v.row(0), shared.strips[warp]);
  }
  rows.finish_sums();
  __syncthreads();  // all stages have been read
  rows.leave(shared.o[warp], shared.max[warp], shared.sum[warp]);
  __syncthreads();

  for (int i = threadIdx.x; i < count * kHeadDim; i += blockDim.x) {
    const int row = i / kHeadDim, c = i % kHeadDim;
    float top = -kInfinity, total = 0, sum = 0;
    for (int w = 0; w < kWarps; ++w) top = fmaxf(top, shared.max[w][row]);
    for (int w = 0; w < kWarps && top > -kInfinity; ++w) {
      const float weight = exp2_approx(shared.max[w][row] - top);
      total += weight * shared.sum[w][row];
      sum += weight * shared.o[w][row][c];
    }
    const std::int64_t place = at.lse_place(row);
    const float lse = top / kLog2e + logf(total);
    if (parts.count == 1) {
      if (c < a.sizes.head_dim) t.o[at.o_place(row) + c] = static_cast<T>(sum / total);
      if (c == 0) t.lse[place] = lse;
    } else {
      if (c < a.sizes.head_dim)
        parts.o[(place * parts.count + part) * a.sizes.head_dim + c] = sum / total;
      if (c == 0) parts.lse[place * parts.count + part] = total > 0 ? lse : -kInfinity;
    }
  }
}

// A block for 32 channels of a row: o = sum_part exp(lse_part - lse) o_part, some of the parts by
// each warp.
template <class T>
__global__ void __launch_bounds__(32 * kJoiners)
    combine_kernel(const AttentionArguments a, const AttentionForward<T> t,
                   const AttentionParts parts) {
  __shared__ float sums[kJoiners][32];
  let_next_kernel_begin();
  wait_for_kernel_before();
  const AttentionSizes& s = a.sizes;
  const int slices = (a.sizes.head_dim + 31) / 32, channel = blockIdx.x % slices * 32 + lane();
  const std::int64_t place = blockIdx.x / slices;
  const float* const lse = parts.lse + place * parts.count;
  float top = -kInfinity, total = 0, sum = 0;
  for (int part = lane(); part < parts.count; part += 32) top = fmaxf(top, lse[part]);
  for (int distance = 16; distance > 0; distance /= 2)
    top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, distance));
  for (int part = lane(); part < parts.count; part += 32) total += exp_approx(lse[part] - top);
  for (int distance = 16; distance > 0; distance /= 2)
    total += __shfl_xor_sync(0xffffffff, total, distance);
  const int warp = threadIdx.x / 32;
  const float* const o = parts.o + place * parts.count * a.sizes.head_dim + channel;
#pragma unroll 8
  for (int part = warp; part < parts.count; part += kJoiners) {
    const float weight = exp_approx(lse[part] - top);
    // A part without a key has left no output.
    if (weight > 0 && channel < a.sizes.head_dim)
      sum += weight * o[std::int64_t{part} * a.sizes.head_dim];
  }
  sums[warp][lane()] = sum;
  __syncthreads();
  if (warp > 0 || channel >= a.sizes.head_dim) return;
  float all = 0;
  for (int w = 0; w < kJoiners; ++w) all += sums[w][lane()];
  const std::int64_t query = place % s.q_length, head = place / s.q_length % s.heads;
  const std::int64_t sequence = place / s.q_length / s.heads;
  t.o[((sequence * s.q_length + query) * s.heads + head) * a.sizes.head_dim + channel] =
      static_cast<T>(all / total);
  if (channel == 0) t.lse[place] = top + logf(total);
}

int part_count(const AttentionShape& s) {
  return static_cast<int>((s.kv_length + kPart - 1) / kPart);
}

template <int kHeadDim, class T>
void launch(const AttentionArguments& a, const AttentionForward<T>& t, const AttentionParts& parts,
            cudaStream_t stream) {
  with_code([&]<Code kOf>() {
    using Memory = Shared<T, kHeadDim, kOf>;
    static_assert(sizeof(Memory) <= kSharedBytes<kOf>);
    const auto kernel = part_kernel<T, kHeadDim>;
    check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Memory)));
    launch_dependent(kernel, std::int64_t{parts.count} * a.sizes.sequences * a.sizes.kv_heads,
                     32 * Memory::kWarps, sizeof(Memory), stream, a, t, parts);
  });
}

}  // namespace

std::size_t attention_parts_work(const AttentionShape& s, int parts) {
  const auto rows = static_cast<std::size_t>(s.sequences * s.heads * s.q_length);
  return parts == 1 ? 0 : rows * parts * static_cast<std::size_t>(s.head_dim + 1) * sizeof(float);
}

AttentionParts::AttentionParts(const AttentionShape& s, int parts, void* work)
    : o(static_cast<float*>(work)),
      lse(o + s.sequences * s.heads * s.q_length * parts * s.head_dim),
      count(parts) {}

template <class T>
void attention_join(const AttentionArguments& a, const AttentionForward<T>& t,
                    const AttentionShape& s, const AttentionParts& parts, cudaStream_t stream) {
  if (parts.count == 1) return;
  const std::int64_t rows = s.sequences * s.heads * s.q_length;
  launch_dependent(combine_kernel<T>, rows * ((s.head_dim + 31) / 32), 32 * kJoiners, 0, stream, a,
                   t, parts);
}

std::size_t attention_few_rows_work(const AttentionShape& s) {
  return attention_parts_work(s, part_count(s));
}

template <class T>
void attention_few_rows(const AttentionArguments& a, const AttentionForward<T>& t,
                        const AttentionShape& s, void* work, cudaStream_t stream) {
  const AttentionParts parts(s, part_count(s), work);
  with_channels(s.head_dim, [&]<int kHeadDim>() { launch<kHeadDim, T>(a, t, parts, stream); });
  attention_join(a, t, s, parts, stream);
}

template void attention_join(const AttentionArguments&, const AttentionForward<float>&,
                             const AttentionShape&, const AttentionParts&, cudaStream_t);
template void attention_join(const AttentionArguments&, const AttentionForward<bf16>&,
                             const AttentionShape&, const AttentionParts&, cudaStream_t);
template void attention_join(const AttentionArguments&, const AttentionForward<__half>&,
                             const AttentionShape&, const AttentionParts&, cudaStream_t);

template void attention_few_rows(const AttentionArguments&, const AttentionForward<float>&,
                                 const AttentionShape&, void*, cudaStream_t);
template void attention_few_rows(const AttentionArguments&, const AttentionForward<bf16>&,
                                 const AttentionShape&, void*, cudaStream_t);
template void attention_few_rows(const AttentionArguments&, const AttentionForward<__half>&,
                                 const AttentionShape&, void*, cudaStream_t);

}  // namespace mt::cuda
