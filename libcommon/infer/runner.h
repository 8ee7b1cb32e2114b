// Runner: runs a GPT forward token by token for several sequences, whose keys and values it keeps,
// on the model's device, in memory whose size was found on `meta`.  Not thread-safe.
//
// On a GPU a long input is taken in pieces, and everything that a step needs from the host goes
// there in one copy.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "infer/runner_input.h"
#include "kernels/gemm.h"
#include "model/families/gpt.h"
#include "nn/kv_cache.h"

namespace mt {

class TokenSteps;

class Runner {
 public:
  // Sequences that run together at most; in such company each gets the bits that it gets alone.
  static constexpr std::int64_t kTogether = kFewRows;

  struct Options {
    std::int64_t vocab_size = 0;  // the tokenizer's: logits are of these tokens
    std::int64_t sequences = 1;   // slots of the cache; at least 1
    int threads = 0;              // of the CPU; 0: one a core
  };
  Runner(const Gpt& model, const Options& options);
  ~Runner();

  std::int64_t max_tokens() const;
  std::int64_t vocab_size() const { return vocab_size_; }
  std::int64_t sequences() const { return static_cast<std::int64_t>(lengths_.size()); }

  // A sequence's tokens follow those that it has seen since start().
  void start(std::int64_t sequence) { lengths_[static_cast<std::size_t>(sequence)] = 0; }
  std::int64_t length(std::int64_t sequence) const {
    return lengths_[static_cast<std::size_t>(sequence)];
  }
  // The logits of the token after `ids` of one sequence, [1, vocab_size], in host memory; valid
  // until the next call.
  ConstTensor next_logits(std::int64_t sequence, std::span<const std::int32_t> ids);
  // The same after one more token of each of some sequences, at most kTogether: [sequences,
  // vocab_size].
  ConstTensor next_logits(std::span<const std::int64_t> sequences,
                          std::span<const std::int32_t> ids);
  // Instead of the logits the tokens that are chosen from them (kernels/sample.h), on the model's
  // device; valid until the next call.  A call that goes on with the tokens of the one before, and
  // with choices of the places behind, finds its step running on a GPU.
  std::span<const std::int32_t> next_tokens(std::span<const std::int64_t> sequences,
                                            std::span<const std::int32_t> ids,
                                            std::span<const Choice> choices);

 private:
  Tensor run(std::span<const std::int64_t> sequences, std::span<const std::int32_t> ids);
  ConstTensor on_host(const Tensor& logits);

  const Gpt& model_;
  std::int64_t vocab_size_;
  Stream stream_;
  KvCache cache_;
  std::vector<std::int64_t> lengths_;  // of the sequences
  Arena layer_;
  Buffer input_, logits_;              // of a GPU's step, in pinned host memory
  std::unique_ptr<TokenSteps> steps_;  // on a GPU
};

}  // namespace mt
