// A cluster of blocks chooses a row's token, each from a part of the row.  Weights are integers, so
// that their sums do not depend on an order; where the CPU sorts, a logit is sought bit by bit such
// that the sum of the weights from it on is as large as asked for.
#include <cooperative_groups.h>

#include "kernels/dependent.cuh"
#include "kernels/reduce.cuh"
#include "kernels/sample.h"

namespace mt::cuda {
namespace {

constexpr int kBlocks = 8, kThreads = 1024;  // of a row
using Word = unsigned long long;

struct Arguments {
  std::int32_t* tokens;
  Choice* choices;
  std::int32_t *positions, *lengths, *shown;  // or null
  const float* logits;
  Word* weights;  // [rows, vocab]
  int vocab, shift;
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

struct Larger {
  __device__ Word operator()(Word a, Word b) const { return a > b ? a : b; }
};

// What the blocks of a row tell each other, by turns in two places.
struct Shared {
  Word of_block[2][kBlocks], of_warp[2][kThreads / 32];
};

class Row {
 public:
  __device__ Row(const Arguments& a, Shared& shared)
      : a_(a),
        shared_(shared),
        row_(blockIdx.x / kBlocks),
        rank_(blockIdx.x % kBlocks),
        choice_(a.choices[row_]),
        logits_(a.logits + std::int64_t{row_} * a.vocab),
        weights_(a.weights + std::int64_t{row_} * a.vocab) {
    const int part = (a.vocab + kBlocks - 1) / kBlocks;
    begin_ = min(a.vocab, rank_ * part);
    end_ = min(a.vocab, begin_ + part);
  }

  __device__ void choose() {
    Word best = 0;
    for_ids([&](int id) {
      const Word at = Word{key_of(logits_[id])} << 32 | static_cast<std::uint32_t>(~id);
      best = at > best ? at : best;
    });
    best = over_row<Larger>(best);
    largest_ = static_cast<std::uint32_t>(best >> 32);
    const Sampling& rule = choice_.rule;
    if (!isfinite(logit_of(largest_)))
      finish(-1, rank_ == 0 && threadIdx.x == 0);
    else if (rule.temperature == 0 || rule.top_k == 1)
      finish(static_cast<int>(~static_cast<std::uint32_t>(best)), rank_ == 0 && threadIdx.x == 0);
    else
      draw();
  }

 private:
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
  // x of each block to all blocks; of_block() has them until the call after the next.
  __device__ const Word* exchange(Word x) {
    auto cluster = cooperative_groups::this_cluster();
    Word* const place = shared_.of_block[turn_];
    if (threadIdx.x < kBlocks) cluster.map_shared_rank(place, threadIdx.x)[rank_] = x;
    cluster.sync();
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
      if (keep(key_of(logits_[id]))) total += value(id);
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
    if (rank_ != owner) return finish(0, false);
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
      finish(id, over(until) && !over(until - mine));
      return;
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

  __device__ Word weight_of(float logit) const {
    const double x = (static_cast<double>(logit) - static_cast<double>(logit_of(largest_))) /
                     choice_.rule.temperature;
    return static_cast<Word>(__double2ull_rn(ldexp(exp(x), a_.shift)));
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
    for_ids([&](int id) { weights_[id] = weight_of(logits_[id]); });
    std::uint32_t least = 0;  // key
    if (0 < rule.top_k && rule.top_k < a_.vocab)
      least = seek([](int) { return Word{1}; },
                   [&](Word count) { return count >= static_cast<Word>(rule.top_k); });
    const auto weight = [&](int id) { return weights_[id]; };
    const Word total = sum(weight, [=](std::uint32_t key) { return key >= least; });
    const TokenPlace& place = choice_.place;
    const RandomKey key = RandomKey::make(rule.seed, kSampling);
    const double u = to_unit(philox({place.token, place.prompt, place.sample, 0}, key)[0]);
    if (!(0 < rule.top_p && rule.top_p < 1)) {
      const double bound = u * static_cast<double>(total);
      return finish_at(
          [&](int id) { return key_of(logits_[id]) >= least ? weights_[id] : Word{0}; },
          [=](Word until) { return static_cast<double>(until) > bound; });
    }
    const auto [kept, kept_key, kept_count] =
        sorted_until(rule.top_p * static_cast<double>(total), weight);
    const auto [drawn, drawn_key, drawn_count] =
        sorted_until(u * static_cast<double>(kept), weight);
    finish_at([&, wanted = drawn_key](int id) { return Word{key_of(logits_[id]) == wanted}; },
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

  // `mine`: in one thread of the row.
  __device__ void finish(int token, bool mine) {
    if (mine) {
      a_.tokens[row_] = token;
      const std::uint32_t place = a_.choices[row_].place.token++;
      if (a_.shown) a_.shown[2 * row_ + place % 2] = token;
      if (a_.positions) ++a_.positions[row_];
      if (a_.lengths) ++a_.lengths[row_];
    }
    cooperative_groups::this_cluster().sync();  // no block leaves while others write to it
  }

  const Arguments& a_;
  Shared& shared_;
  int row_, rank_, begin_, end_, turn_ = 0;
  const Choice choice_;
  const float* logits_;
  Word* weights_;
  std::uint32_t largest_ = 0;  // key
};

__global__ __cluster_dims__(kBlocks)
    __launch_bounds__(kThreads) void sample_kernel(const Arguments a) {
  __shared__ Shared shared;
  let_next_kernel_begin();
  cooperative_groups::this_cluster().sync();  // all blocks run before one writes to another
  wait_for_kernel_before();
  Row(a, shared).choose();
}

}  // namespace

std::size_t sample_work(std::int64_t rows, std::int64_t vocab) {
  return static_cast<std::size_t>(rows * vocab) * sizeof(Word);
}

void sample(std::int32_t* tokens, Choice* choices, std::int32_t* positions, std::int32_t* lengths,
            std::int32_t* shown, const float* logits, std::int64_t rows, std::int64_t vocab,
            void* work, cudaStream_t stream) {
  if (rows == 0) return;
  int shift = 62;  // so that the sum of all fits
  while (vocab > std::int64_t{1} << (62 - shift)) --shift;
  const Arguments a{tokens,
                    choices,
                    positions,
                    lengths,
                    shown,
                    logits,
                    static_cast<Word*>(work),
                    static_cast<int>(vocab),
                    shift};
  launch_dependent(sample_kernel, rows * kBlocks, kThreads, 0, stream, a);
}

}  // namespace mt::cuda
