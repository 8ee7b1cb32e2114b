// SpanPass: passes that say what a T5's decoder makes of what it is to say; many short samples run
// together.  As in score_pass.h, what is said of one depends on the CPU neither on the number of
// threads nor on what runs beside it.  Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "model/pass.h"

namespace mt {

class SpanPass {
 public:
  struct Options {
    std::int64_t vocab_size = 0;        // the tokenizer's: logits are of these tokens
    std::int64_t read = 0, length = 0;  // tokens for the encoder and for the decoder, at most
    std::int64_t batch = 1;             // samples of those lengths at a time, of shorter ones more
    int threads = 0;                    // of the CPU; 0: one a core
  };
  SpanPass(const Model& model, const Options& options);

  struct Sample {
    std::span<const std::int32_t> read, ids;  // of the encoder, of the decoder; not empty
  };
  // Calls `take` for each sample, in any order: with its number and the logits behind each of its
  // ids, [ids, vocab_size] in host memory, valid until it returns.
  void run(std::span<const Sample> samples,
           const std::function<void(std::size_t sample, ConstTensor logits)>& take);

 private:
  void run_batch(std::span<const Sample> samples, std::span<const std::size_t> which,
                 std::int64_t read, std::int64_t length,
                 const std::function<void(std::size_t sample, ConstTensor logits)>& take);

  std::int64_t read_, tokens_;  // of a batch, padding included: the encoder's, the decoder's
  Stream stream_;
  Pass pass_;
};

}  // namespace mt
