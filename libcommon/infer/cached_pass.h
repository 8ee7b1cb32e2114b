// CachedPass: passes over sequences whose keys and values are kept, so that their tokens come in
// pieces, as many more of one sequence as there are or one more of each of several.  What they have
// seen lies in pages of a cache, one for each sequence, which grow with what is asked for and never
// beyond the model's positions.  Not thread-safe.
//
// A sequence of a model with an encoder begins with a text that the encoder reads, once, and its
// tokens are the decoder's: the page has what the decoder's layers see of that text, too.
//
// On a GPU a long input is taken in pieces, and everything that a step needs from the host goes
// there in one copy.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/gemm.h"
#include "model/pass.h"
#include "nn/kv_cache.h"

namespace mt {

class TokenSteps;

class CachedPass {
 public:
  // Sequences that run together at most; in such company each gets the bits that it gets alone.
  static constexpr std::int64_t kTogether = kFewRows;

  struct Options {
    std::int64_t vocab_size = 0;  // the tokenizer's: logits are of these tokens
    std::int64_t sequences = 1;   // at most
    int threads = 0;              // of the CPU; 0: one a core
  };
  CachedPass(const Model& model, const Options& options);
  ~CachedPass();

  std::int64_t max_tokens() const;  // of a sequence, and of a text: the model's positions
  std::int64_t sequences() const { return static_cast<std::int64_t>(lengths_.size()); }

  // Makes pages for the first so many sequences, each of so many tokens behind a text of so many
  // for the encoder, unless there are; what they have seen stays.  Those below do it too, for as
  // much as they are given.
  void reserve(std::int64_t sequences, std::int64_t tokens, std::int64_t read = 0);
  std::int64_t page_tokens() const { return cache_ ? cache_->keys(0).shape()[1] : 0; }
  std::int64_t page_read() const {
    return cache_ && has_encoder() ? cache_->memory(0).shape()[1] : 0;
  }
  std::int64_t pages() const { return cache_ ? cache_->keys(0).shape()[0] : 0; }

  // A sequence's tokens follow those that it has seen since start().
  void start(std::int64_t sequence) { lengths_[static_cast<std::size_t>(sequence)] = 0; }
  std::int64_t length(std::int64_t sequence) const {
    return lengths_[static_cast<std::size_t>(sequence)];
  }
  // The logits of the token after `ids` of one sequence, [1, vocab_size], in host memory; valid
  // until the next call.  read: what the encoder of a model that has one reads; with the first of
  // the sequence's ids.
  ConstTensor next_logits(std::int64_t sequence, std::span<const std::int32_t> ids,
                          std::span<const std::int32_t> read = {});
  // The logits after one more token of each of some sequences, at most kTogether: [sequences,
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
  bool has_encoder() const;
  KvCache make_cache(Device device, std::int64_t pages, std::int64_t tokens,
                     std::int64_t read) const;
  void copy_pages(const KvCache& to);
  void reserve_pass();
  void make_room(std::span<const std::int64_t> sequences, std::int64_t length,
                 std::int64_t read = 0);
  PassInput put(std::span<const std::int64_t> sequences, std::span<const std::int32_t> ids,
                std::span<const std::int32_t> read = {});
  Tensor run(std::span<const std::int64_t> sequences, const PassInput& in);
  // Tokens of one sequence that are taken at once.
  std::int64_t piece() const;

  Stream stream_;
  Pass pass_;
  std::unique_ptr<KvCache> cache_;     // [pages, tokens, ...]; a sequence's page has its number
  std::vector<std::int64_t> lengths_;  // of the sequences
  std::vector<std::int64_t> read_;     // tokens of the texts that the encoder has read for each
  std::unique_ptr<TokenSteps> steps_;  // on a GPU
};

}  // namespace mt
