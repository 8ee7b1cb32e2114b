// EncoderPass: passes that say of texts what a BERT makes of their tokens; many short ones run
// together.  As in score_pass.h, what is said of a text depends on the CPU neither on the number of
// threads nor on what runs beside it.  Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/pass.h"

namespace mt {

class EncoderPass {
 public:
  // Each token that is asked of has one, but of the hidden states of a text's there may be wanted
  // the mean alone, zeros where there are none; queries and contexts are made by that tower of two.
  enum class Wanted : std::uint8_t { hidden, means, pooled, logits, queries, contexts };
  struct Options {
    Wanted wanted = Wanted::hidden;
    std::int64_t vocab_size = 0;  // the tokenizer's: logits are of these tokens
    std::int64_t batch = 1;       // texts of the longest kind at a time, of shorter ones more
    int threads = 0;              // of the CPU; 0: one a core
  };
  EncoderPass(const Model& model, const Options& options);

  std::int64_t max_tokens() const { return window_; }  // of a text: the model's positions

  struct Text {
    std::span<const std::int32_t> ids;         // 1 to max_tokens()
    std::vector<std::int32_t> asked;           // which of them something is asked of
    std::span<const std::int32_t> types = {};  // of the tokens; empty: 0
  };
  // Calls `take` for each text, in any order: with its number and what was wanted, [asked, ...] or
  // of means [1, ...], in host memory, valid until it returns.
  void run(std::span<const Text> texts,
           const std::function<void(std::size_t text, ConstTensor said)>& take);

 private:
  void run_batch(std::span<const Text> texts, std::span<const std::size_t> which,
                 std::int64_t length,
                 const std::function<void(std::size_t text, ConstTensor said)>& take);
  // The means of rows of hidden states, [texts, columns], where the rows are.  spans: of each text
  // its first row, then how many there are of each.
  Tensor means(ConstTensor states, const std::vector<std::int32_t>& spans);

  Wanted wanted_;
  std::int64_t window_, tokens_;  // tokens_: of a batch, padding included, and asked of at most
  Stream stream_;
  Pass pass_;
  Buffer spans_, means_;  // where the model is
};

}  // namespace mt
