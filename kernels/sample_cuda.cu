// A cluster of blocks chooses a row's token, each from a part of the row; one block alone where the
// code is for GPUs without clusters.  Weights are integers, so that their sums do not depend on an
// order; where the CPU sorts, a logit is sought bit by bit such that the sum of the weights from it
// on is as large as asked for.  A block's part of the row lies in shared memory meanwhile, if there
// is room.
#include <cooperative_groups.h>

#include "kernels/dependent.cuh"
#include "kernels/pack.cuh"
#include "kernels/reduce.cuh"
#include "kernels/sample.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 1024;
using Word = unsigned long long;

// The blocks of a row.
constexpr int kCluster = 8;
int blocks_of_row() { return has_clusters() ? kCluster : 1; }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define MT_BLOCKS_OF_ROW
constexpr int kBlocks = 1;
__device__ void sync_row() { __syncthreads(); }
__device__ Word* in_block(Word* place, int) { return place; }
#else
#define MT_BLOCKS_OF_ROW __cluster_dims__(kCluster)
constexpr int kBlocks = kCluster;
__device__ void sync_row() { cooperative_groups::this_cluster().sync(); }
__device__ Word* in_block(Word* place, int block) {
  return cooperative_groups::this_cluster().map_shared_rank(place, block);
}
#endif

struct Arguments {
  std::int32_t* tokens;
  Choice* choices;
  std::int32_t *positions, *lengths, *shown;  // or null
  double* scores;                             // or null
  const float* logits;
  Word* weights;           // [rows, vocab], if a block's are not held in shared memory
  int vocab, part, shift;  // part: of the vocabulary, a block's
  bool held;
};

// Larger for larger numbers, equal for both zeros, the largest for NaN.
__device__ std::uint32_t key_of(float x) {
  if (isnan(x)) return 0xffffffff;
  const std::uint32_t bits = __float_as_uint(x + 0.0f);
  return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}
__device__ float logit_of(std::uint32_t key) {
  return __uint_as_float(key & 0x80000000 ? key & 0x7fffffff : ~key);
}

struct Any {
  __device__ bool operator()(std::uint32_t) const { return true; }
};
struct Larger {
  __device__ Word operator()(Word a, Word b) const { return a > b ? a : b; }
};

// What the blocks of a row tell each other, by turns in two places.
struct Shared {
  Word of_block[2][kBlocks], of_warp[2][kThreads / 32];
};

class Row {
 public:
  // held: [part] weights and logits.
  __device__ Row(const Arguments& a, Shared& shared, Word* held)
      : a_(a),
        shared_(shared),
        row_(blockIdx.x / kBlocks),
        rank_(blockIdx.x % kBlocks),
        begin_(min(a.vocab, rank_ * a.part)),
        end_(min(a.vocab, begin_ + a.part)),
        choice_(a.choices[row_]),
        position_(a.positions ? a.positions[row_] : 0),
        length_(a.lengths ? a.lengths[row_] : 0),
        logits_(a.logits + std::int64_t{row_} * a.vocab + begin_),
        temperature_(choice_.rule.temperature == 0 ? 1 : choice_.rule.temperature),
        weights_(a.held ? held : a.weights + std::int64_t{row_} * a.vocab + begin_) {}

  __device__ void choose() {
    Word best = 0;
    float* const held = a_.held ? reinterpret_cast<float*>(weights_ + a_.part) : nullptr;
    constexpr int kUnroll = 16;  // logits of a thread on their way at once
    for (int first = begin_ + static_cast<int>(threadIdx.x); first < end_;
         first += kUnroll * kThreads) {
      float x[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
        if (first + u * kThreads < end_) x[u] = logit(first + u * kThreads);
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int id = first + u * kThreads;
        if (id >= end_) break;
        if (held) held[id - begin_] = x[u];
        const Word at = Word{key_of(x[u])} << 32 | static_cast<std::uint32_t>(~id);
        best = at > best ? at : best;
      }
    }
    if (held) logits_ = held;
    best = over_row<Larger>(best);
    largest_ = static_cast<std::uint32_t>(best >> 32);
    const Sampling& rule = choice_.rule;
    if (!isfinite(logit_of(largest_))) return finish(-1, rank_ == 0 && threadIdx.x == 0, largest_);
    if (rule.temperature == 0 || rule.top_k == 1) {
      if (is_scored()) whole_ = sum([&](int id) { return weight_of(logit(id)); }, Any());
      return finish(static_cast<int>(~static_cast<std::uint32_t>(best)),
                    rank_ == 0 && threadIdx.x == 0, largest_);
    }
    draw();
  }

 private:
  __device__ bool is_scored() const { return choice_.scored != 0 && a_.scores != nullptr; }
  __device__ float logit(int id) const { return logits_[id - begin_]; }
  __device__ Word& weight(int id) const { return weights_[id - begin_]; }

  // Always the same ids for a thread, which therefore reads what it wrote itself.
  template <class Body>
  __device__ void for_ids(const Body& body) const {
    for (int id = begin_ + static_cast<int>(threadIdx.x); id < end_; id += kThreads) body(id);
  }

  template <class Combine>
  __device__ Word over_this_block(Word x) {
    Word* const of_warp = shared_.of_warp[turn_];
    x = over_lanes(x, 32, Combine());
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
    __syncthreads();
    x = over_lanes(of_warp[threadIdx.x % 32], 32, Combine());
    return x;
  }
  // x of each block to all blocks, which have it until the call after the next.  No block writes to
  // another after the last such call, so that each may leave then.
  __device__ const Word* exchange(Word x) {
    Word* const place = shared_.of_block[turn_];
    if (threadIdx.x < kBlocks) in_block(place, static_cast<int>(threadIdx.x))[rank_] = x;
    sync_row();
    turn_ ^= 1;
    return place;
  }
  template <class Combine>
  __device__ Word over_row(Word x) {
    const Word* const parts = exchange(over_this_block<Combine>(x));
    x = parts[0];
    for (int i = 1; i < kBlocks; ++i) x = Combine()(x, parts[i]);
    return x;
  }
  // The sum of value(id) over the row's ids of which keep(key).
  template <class Value, class Keep>
  __device__ Word sum(const Value& value, const Keep& keep) {
    Word total = 0;
    for_ids([&](int id) {
      if (keep(key_of(logit(id)))) total += value(id);
    });
    return over_row<Sum>(total);
  }

  // The largest key with which over(sum of value over it and all larger ones).
  template <class Value, class Over>
  __device__ std::uint32_t seek(const Value& value, const Over& over) {
    std::uint32_t low = 0, high = largest_;
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2 + 1;
      if (over(sum(value, [=](std::uint32_t key) { return key >= middle; })))
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }

  // finish() with the first id for which over(sum of value over it and those before).
  template <class Value, class Over>
  __device__ void finish_at(const Value& value, const Over& over) {
    Word own = 0;
    for_ids([&](int id) { own += value(id); });
    const Word* const parts = exchange(over_this_block<Sum>(own));
    Word before = 0;
    int owner = 0;
    for (; owner < kBlocks - 1 && !over(before + parts[owner]); ++owner) before += parts[owner];
    if (rank_ != owner) return;
    for (int first = begin_; first < end_; first += kThreads) {
      const int id = first + static_cast<int>(threadIdx.x);
      const Word mine = id < end_ ? value(id) : 0;
      turn_ ^= 1;
      const Word all = over_this_block<Sum>(mine);
      if (!over(before + all) && first + kThreads < end_) {
        before += all;
        continue;
      }
      const Word until = before + up_to_this_thread(mine);
      const bool is_here = over(until) && !over(until - mine);
      return finish(id, is_here, is_here ? key_of(logit(id)) : 0);
    }
  }
  __device__ Word up_to_this_thread(Word x) {
    __shared__ Word of_warp[kThreads / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int distance = 1; distance < 32; distance *= 2) {
      const Word other = __shfl_up_sync(0xffffffff, x, distance);
      if (lane >= distance) x += other;
    }
    if (lane == 31) of_warp[warp] = x;
    __syncthreads();
    for (int w = 0; w < warp; ++w) x += of_warp[w];
    return x;
  }

  // The logarithm of how likely a token is, next to the likeliest.
  __device__ double exponent_of(float logit) const {
    return (static_cast<double>(logit) - static_cast<double>(logit_of(largest_))) / temperature_;
  }
  __device__ Word weight_of(float logit) const {
    return static_cast<Word>(__double2ull_rn(ldexp(exp(exponent_of(logit)), a_.shift)));
  }

  // How many of weight `each` on top of `base` are over a bound, at least 1.
  __device__ static Word count_over(double bound, Word base, Word each) {
    if (each == 0) return 1;
    const double about = (bound - static_cast<double>(base)) / static_cast<double>(each);
    Word count = about > 2 ? static_cast<Word>(about) - 1 : 1;
    while (!(static_cast<double>(base + count * each) > bound)) ++count;
    return count;
  }

  __device__ void draw() {
    const Sampling& rule = choice_.rule;
    for_ids([&](int id) { weight(id) = weight_of(logit(id)); });
    std::uint32_t least = 0;  // key
    if (0 < rule.top_k && rule.top_k < a_.vocab)
      least = seek([](int) { return Word{1}; },
                   [&](Word count) { return count >= static_cast<Word>(rule.top_k); });
    const auto weight_at = [&](int id) { return weight(id); };
    const Word total = sum(weight_at, [=](std::uint32_t key) { return key >= least; });
    if (is_scored()) whole_ = least == 0 ? total : sum(weight_at, Any());
    const TokenPlace& place = choice_.place;
    const RandomKey key = RandomKey::make(rule.seed, kSampling);
    const double u = to_unit(philox({place.token, place.prompt, place.sample, 0}, key)[0]);
    if (!(0 < rule.top_p && rule.top_p < 1)) {
      const double bound = u * static_cast<double>(total);
      return finish_at([&](int id) { return key_of(logit(id)) >= least ? weight(id) : Word{0}; },
                       [=](Word until) { return static_cast<double>(until) > bound; });
    }
    const auto [kept, kept_key, kept_count] =
        sorted_until(rule.top_p * static_cast<double>(total), weight_at);
    const auto [drawn, drawn_key, drawn_count] =
        sorted_until(u * static_cast<double>(kept), weight_at);
    finish_at([&, wanted = drawn_key](int id) { return Word{key_of(logit(id)) == wanted}; },
              [wanted = drawn_count](Word until) { return until >= wanted; });
  }

  // By falling logit and rising id, the first with which the sum of weights is over a bound: that
  // sum, its key, and how many with this key come up to it.
  struct Until {
    Word sum;
    std::uint32_t key;
    Word count;
  };
  template <class Weight>
  __device__ Until sorted_until(double bound, const Weight& weight) {
    const std::uint32_t key =
        seek(weight, [=](Word sum) { return static_cast<double>(sum) > bound; });
    const Word base = sum(weight, [=](std::uint32_t other) { return other > key; });
    const Word each = weight_of(logit_of(key)), count = count_over(bound, base, each);
    return {base + count * each, key, count};
  }

  // `mine`: in one thread of the row, which knows the key of the token's logit.
  __device__ void finish(int token, bool mine, std::uint32_t key) {
    if (mine) {
      const std::uint32_t place = choice_.place.token;
      a_.tokens[row_] = token;
      a_.choices[row_].place.token = place + 1;
      if (is_scored())
        a_.scores[2 * row_ + place % 2] =
            exponent_of(logit_of(key)) - log(ldexp(static_cast<double>(whole_), -a_.shift));
      if (a_.shown) a_.shown[2 * row_ + place % 2] = token;
      if (a_.positions) a_.positions[row_] = position_ + 1;
      if (a_.lengths) a_.lengths[row_] = length_ + 1;
    }
  }

  const Arguments& a_;
  Shared& shared_;
  const int row_, rank_, begin_, end_;
  int turn_ = 0;
  const Choice choice_;
  const std::int32_t position_, length_;
  const float* logits_;  // from begin_ on, as the weights
  const double temperature_;
  Word* const weights_;
  std::uint32_t largest_ = 0;  // key
  Word whole_ = 0;             // weights of all tokens, where the choice is scored
};

__global__ MT_BLOCKS_OF_ROW __launch_bounds__(kThreads) void sample_kernel(const Arguments a) {
  __shared__ Shared shared;
  extern __shared__ Word held[];
  let_next_kernel_begin();
  sync_row();  // all blocks run before one writes to another
  wait_for_kernel_before();
  Row(a, shared, held).choose();
}

std::int64_t part_of(std::int64_t vocab) { return ceil_div(vocab, blocks_of_row()); }
// How many bytes of shared memory hold so many logits, if a block with so much of it has room for
// them beside what it has anyway; else 0.
std::size_t held_bytes(std::int64_t logits, std::size_t room) {
  constexpr std::size_t kOwn = 7 << 10;
  const auto bytes = static_cast<std::size_t>(logits) * (sizeof(Word) + sizeof(float));
  return bytes + kOwn <= room ? bytes : 0;
}

}  // namespace

// Also where there is no GPU: what the least of them needs, with one block a row.
std::size_t sample_work(std::int64_t rows, std::int64_t vocab) {
  if (held_bytes(vocab, kSharedBytes<Code::turing>) > 0) return 0;
  return static_cast<std::size_t>(rows * vocab) * sizeof(Word);
}

void sample(std::int32_t* tokens, Choice* choices, std::int32_t* positions, std::int32_t* lengths,
            std::int32_t* shown, double* scores, const float* logits, std::int64_t rows,
            std::int64_t vocab, void* work, cudaStream_t stream) {
  if (rows == 0) return;
  int shift = 62;  // so that the sum of all fits
  while (vocab > std::int64_t{1} << (62 - shift)) --shift;
  const std::size_t bytes = held_bytes(part_of(vocab), most_shared_bytes());
  const Arguments a{tokens,
                    choices,
                    positions,
                    lengths,
                    shown,
                    scores,
                    logits,
                    static_cast<Word*>(work),
                    static_cast<int>(vocab),
                    static_cast<int>(part_of(vocab)),
                    shift,
                    bytes > 0};
  check(cudaFuncSetAttribute(sample_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)));
  launch_dependent(sample_kernel, rows * blocks_of_row(), kThreads, bytes, stream, a);
}

}  // namespace mt::cuda
