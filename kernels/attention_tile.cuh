// What attention's kernels for every GPU share: which rows of the tensors a block works on, and how
// tiles of them come to shared memory and results from there.
#pragma once

#include <algorithm>

#include "base/error.h"
#include "kernels/attention_cuda.cuh"
#include "kernels/attention_keep.cuh"
#include "kernels/fast_math.cuh"
#include "kernels/gpu.h"
#include "kernels/warp_product.cuh"

namespace mt::cuda {

// Whether there is room for all that pays: on Turing, where copies are not on their way on their
// own either, blocks have fewer warps or stages.
template <Code kOf>
inline constexpr bool kRoomy = kOf != Code::turing;

struct AttentionArguments {
  AttentionSizes sizes;
  KeepRule keep;
  const std::int32_t *kv_lengths, *kv_slots;  // or null
  std::int64_t kv_stride;
  int kv_runs;
  bool dropout, whole_units;  // rows begin at multiples of 16 bytes

  template <class... Pointers>
  AttentionArguments(const AttentionShape& s, const std::int32_t* first_key, const Dropout& d,
                     int element_bytes, Pointers... tensors)
      : sizes(s, first_key),
        keep(d, s),
        kv_lengths(s.kv_lengths),
        kv_slots(s.kv_slots),
        kv_stride(s.kv_stride),
        kv_runs(static_cast<int>(s.kv_runs)),
        dropout(d.p > 0),
        whole_units(((reinterpret_cast<std::uintptr_t>(tensors) | ...) % 16 == 0) &&
                    s.head_dim * element_bytes % 16 == 0) {}
};

template <class T>
struct AttentionForward {
  T* o;
  float* lse;
  const T *q, *k, *v;
};

// Whether a key head has so few queries that its keys are what takes time; attention_few_rows.cu.
inline bool few_rows(const AttentionShape& s) {
  return s.q_length * (s.heads / s.kv_heads) <= 16 && !s.bias;
}
std::size_t attention_few_rows_work(const AttentionShape& shape);
template <class T>
void attention_few_rows(const AttentionArguments& a, const AttentionForward<T>& t,
                        const AttentionShape& shape, void* work, cudaStream_t stream);

// AttentionParts: where results of parts of the keys go, if there are several: of each row of all
// heads, [parts, head_dim] and [parts], in work of attention_parts_work() bytes.
struct AttentionParts {
  float *o, *lse;
  int count;
  AttentionParts(const AttentionShape& s, int parts, void* work);
};
std::size_t attention_parts_work(const AttentionShape& shape, int parts);
// Makes o and lse of such results, where there are several parts (attention_few_rows.cu).
template <class T>
void attention_join(const AttentionArguments& a, const AttentionForward<T>& t,
                    const AttentionShape& shape, const AttentionParts& parts, cudaStream_t stream);

// Whether a head has more channels than other kernels hold; attention_wide.cu.
inline constexpr int kWidestHead = 576;
inline bool is_wide(const AttentionShape& s) {
  return s.head_dim > 256 && s.head_dim <= kWidestHead && !s.bias && s.softcap == 0;
}
std::size_t attention_wide_work(const AttentionShape& shape);
template <class T>
void attention_wide(const AttentionArguments& a, const AttentionForward<T>& t,
                    const AttentionShape& shape, void* work, cudaStream_t stream);

// Makes delta (attention.h), which lies as lse does.
template <class T>
void attention_delta(float* delta, const T* d_o, const T* o, const AttentionSizes& sizes,
                     cudaStream_t stream);

// A key head of a sequence and the query heads that use it.  Their queries are rows: row r is query
// r / group of the r % group-th of them, so that a tile of rows meets each key once for all heads.
struct HeadGroup {
  const AttentionArguments& a;
  AttentionSizes sizes;
  int sequence, kv_head, group, slot;

  // index: sequence * kv_heads + kv_head.
  __device__ HeadGroup(const AttentionArguments& arguments, int index)
      : a(arguments),
        sizes(arguments.sizes),
        sequence(index / sizes.kv_heads),
        kv_head(index % sizes.kv_heads),
        group(sizes.group()),
        slot(sequence) {
    if (a.kv_lengths) sizes.kv_length = a.kv_lengths[sequence];
    if (a.kv_slots && a.kv_runs == 1) slot = a.kv_slots[sequence];
  }
  __device__ int rows() const { return sizes.q_length * group; }
  __device__ int query(int row) const { return min(quotient(row), sizes.q_length - 1); }
  __device__ int head(int row) const { return kv_head * group + row - quotient(row) * group; }
  __device__ int quotient(int row) const {
    return group == 1 ? row
                      : static_cast<int>(static_cast<unsigned>(row) / static_cast<unsigned>(group));
  }
  // The keys [first, last] that a row sees.
  __device__ int first(int row) const { return sizes.first(sequence, query(row)); }
  __device__ int last(int row) const { return sizes.last(sequence, query(row)); }
  // Where it is in q and dq; in o and do; in lse.
  __device__ std::int64_t q_place(int row) const {
    const int query = quotient(row);
    return (std::int64_t{sequence} * sizes.q_length + query) * sizes.q_row +
           kv_head * sizes.q_group + std::int64_t{row - query * group} * sizes.head_dim;
  }
  __device__ std::int64_t o_place(int row) const {
    return (std::int64_t{sequence} * sizes.q_length * sizes.heads + kv_head * group + row +
            std::int64_t{quotient(row)} * (sizes.heads - group)) *
           sizes.head_dim;
  }
  __device__ std::int64_t lse_place(int row) const {
    return (std::int64_t{sequence} * sizes.heads + head(row)) * sizes.q_length + query(row);
  }
  // Where a key is in k, v, dk and dv.  Those of a tile follow one another.
  __device__ std::int64_t key_place(int key) const {
    std::int64_t token = slot * a.kv_stride + key;
    if (a.kv_runs > 1) {
      const int stride = static_cast<int>(a.kv_stride), run = key / stride;
      token = a.kv_slots[sequence * a.kv_runs + run] * a.kv_stride + (key - run * stride);
    }
    return token * sizes.kv_row + kv_head * sizes.kv_head;
  }
  // What is added to a score of theirs before it is scaled.
  __device__ float bias(int row, int key) const {
    return sizes.bias[sizes.bias_place(head(row), query(row), key)] / sizes.scale;
  }
  __device__ float factor(std::uint32_t sample, int row, int key) const {
    return a.keep.factor_of(sample, head(row), query(row), key);
  }
};

// Rows of kChannels elements in shared memory, for warp_product.cuh.
template <class T, int kRows, int kChannels>
struct alignas(16) Tile {
  static constexpr int kStride = row_stride<T>(kChannels), kUnit = 16 / sizeof(T);
  T elements[kRows * kStride];

  __device__ T* row(int i) { return elements + i * kStride; }

  // Row i from at(i) for i < count, of `channels` elements; zeros elsewhere.  kThreads threads, of
  // which this is one, do it together; what they start is there after copies_wait() and a barrier.
  template <int kThreads, class At>
  __device__ void load(int count, int channels, bool whole_units, const At& at, int thread) {
    constexpr int kUnits = kChannels / kUnit, kRowsAtATime = std::max(1, kThreads / kUnits);
    const bool full = whole_units && count >= kRows && channels == kChannels;
#pragma unroll
    for (int r = thread / kUnits; r < kRows; r += kRowsAtATime)
#pragma unroll
      for (int u = thread % kUnits; u < kUnits; u += kThreads)
        if (full)
          copy_16_bytes(row(r) + u * kUnit, at(r) + u * kUnit);
        else
          load_unit(row(r) + u * kUnit, r < count ? at(r) : nullptr, u * kUnit, channels,
                    whole_units);
  }

  __device__ static void load_unit(T* to, const T* from, int c, int channels, bool whole_units) {
    if (!from || c >= channels)
      *reinterpret_cast<uint4*>(to) = uint4{};
    else if (whole_units)
      copy_16_bytes(to, from + c);
    else
      for (int x = 0; x < kUnit; ++x) to[x] = c + x < channels ? from[c + x] : T(0.0f);
  }
};

// Keys (or values) from `first` on, rows from `first` on, of q or of do, as HeadGroup says.
template <int kThreads, class Tile, class T>
__device__ void load_keys(Tile& tile, const T* tensor, const HeadGroup& at, int first,
                          int thread = threadIdx.x) {
  const T* const from = tensor + at.key_place(first);
  const std::int64_t stride = at.sizes.kv_row;
  tile.template load<kThreads>(
      at.sizes.kv_length - first, at.sizes.head_dim, at.a.whole_units,
      [&](int i) { return from + i * stride; }, thread);
}
template <int kThreads, class Tile, class T>
__device__ void load_queries(Tile& tile, const T* q, const HeadGroup& at, int first) {
  tile.template load<kThreads>(
      at.rows() - first, at.sizes.head_dim, at.a.whole_units,
      [&](int i) { return q + at.q_place(first + i); }, threadIdx.x);
}
template <int kThreads, class Tile, class T>
__device__ void load_output_gradients(Tile& tile, const T* d_o, const HeadGroup& at, int first) {
  tile.template load<kThreads>(
      at.rows() - first, at.sizes.head_dim, at.a.whole_units,
      [&](int i) { return d_o + at.o_place(first + i); }, threadIdx.x);
}

// f.operator()<kHeadDim>() for the narrowest tiles that hold head_dim channels.
template <class F>
void with_channels(std::int64_t head_dim, const F& f) {
  if (head_dim > 256)
    fail(Exit::unavailable, "attention on a GPU: heads of ", head_dim,
         " channels, at most 256, or ", kWidestHead,
         " without gradients, dropout, bias and softcap");
  if (head_dim <= 64) return f.template operator()<64>();
  if (head_dim <= 128) return f.template operator()<128>();
  f.template operator()<256>();
}

// A warp's sums times factor[0], of rows 8 to 15 factor[1], to at(i) for row i < count of the 16,
// by way of 16 rows of a tile that no other warp uses.
template <int kColumns, class Tile, class At>
__device__ void store_rows(const float (&sums)[kColumns / 2], const float (&factor)[2], Tile& tile,
                           int first_row, int count, int channels, bool whole_units, const At& at) {
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kColumns / 4; ++i)
    store_pair(tile.row(first_row + lane() / 4 + i % 2 * 8) + i / 2 * 8 + lane() % 4 * 2,
               sums[2 * i] * factor[i % 2], sums[2 * i + 1] * factor[i % 2]);
  __syncwarp();
  constexpr int kUnit = Tile::kUnit, kUnits = kColumns / kUnit;
  for (int i = lane(); i < 16 * kUnits; i += 32) {
    const int r = i / kUnits, c = i % kUnits * kUnit;
    if (r >= count || c >= channels) continue;
    auto* const from = tile.row(first_row + r) + c;
    auto* const to = at(r) + c;
    if (whole_units)
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
    else
      for (int x = 0; x < kUnit && c + x < channels; ++x) to[x] = from[x];
  }
}

}  // namespace mt::cuda
