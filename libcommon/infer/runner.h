// Runner: runs a GPT forward token by token for several sequences, each with its cache of keys and
// values, on the CPU, in memory whose size was found on `meta`.  Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/gemm.h"
#include "model/gpt.h"
#include "nn/kv_cache.h"

namespace mt {

class Runner {
 public:
  // Sequences that run together at most; in such company each gets the bits that it gets alone.
  static constexpr std::int64_t kTogether = kFewRows;

  struct Options {
    std::int64_t vocab_size = 0;  // the tokenizer's: logits are of these tokens
    std::int64_t sequences = 1;   // caches; at least 1
    int threads = 0;              // 0: one a core
  };
  Runner(const Gpt& model, const Options& options);

  std::int64_t max_tokens() const { return model_.config().max_position_embeddings; }
  std::int64_t vocab_size() const { return vocab_size_; }
  std::int64_t sequences() const { return static_cast<std::int64_t>(caches_.size()); }

  // A sequence's tokens follow those that it has seen since start().
  void start(std::int64_t sequence) { cache(sequence).clear(); }
  std::int64_t length(std::int64_t sequence) const {
    return caches_[static_cast<std::size_t>(sequence)].length();
  }
  // The logits of the token after `ids` of one sequence, [1, vocab_size]; valid until the next
  // call.
  ConstTensor next_logits(std::int64_t sequence, std::span<const std::int32_t> ids);
  // The same after one more token of each of some sequences, at most kTogether: [sequences,
  // vocab_size].
  ConstTensor next_logits(std::span<const std::int64_t> sequences,
                          std::span<const std::int32_t> ids);

 private:
  KvCache& cache(std::int64_t sequence) { return caches_[static_cast<std::size_t>(sequence)]; }
  ConstTensor run(std::span<KvCache* const> caches, std::span<const std::int32_t> ids);

  const Gpt& model_;
  std::int64_t vocab_size_;
  Stream stream_;
  std::vector<KvCache> caches_;
  Arena layer_;
};

}  // namespace mt
