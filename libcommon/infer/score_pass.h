// ScorePass: passes that say how likely a GPT finds the tokens of sequences; many short ones run
// together, and logits are computed only for the tokens that are asked for.  Not thread-safe.
//
// On the CPU what a token scores depends neither on the number of threads nor on what runs beside
// it: sequences are padded, which their tokens do not see, so that each begins where the matrix
// products begin their round of rows (kernels/gemm.h), and what is scored of it too.  On a GPU,
// whose products differ with the size of the batch, it depends on that by rounding.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/pass.h"

namespace mt {

class ScorePass {
 public:
  struct Options {
    std::int64_t vocab_size = 0;  // the tokenizer's: probabilities are over these tokens
    std::int64_t window = 0;      // inputs of a sequence at most
    std::int64_t batch = 1;       // sequences of that length at a time, of shorter ones more
    double temperature = 1;       // what logits are divided by; 1 where the likeliest are asked for
    int threads = 0;              // of the CPU; 0: one a core
    std::int64_t host_logits = std::int64_t{1} << 26;      // that the host looks at at a time
    std::function<void(std::int64_t tokens)> scored = {};  // is told of each batch
  };
  ScorePass(const Model& model, const Options& options);

  // nll[i][j] = -log p(token | all before it in ids[i]), in nats, for the last nll[i].size() tokens
  // of ids[i]; its last element belongs to the last token.  ids[i]: 2 to window + 1 tokens.
  void score(std::span<const std::span<const std::int32_t>> ids,
             std::span<const std::span<double>> nll);
  // Also likeliest[i][j]: 1 where that token is the likeliest, of equally likely ones the first.
  // It looks at all logits on the host, some of them at a time.
  void score(std::span<const std::span<const std::int32_t>> ids,
             std::span<const std::span<double>> nll,
             std::span<const std::span<std::uint8_t>> likeliest);

 private:
  struct Item {
    std::span<const std::int32_t> ids;
    std::span<double> nll;
    std::span<std::uint8_t> likeliest = {};
  };
  void score_all(std::vector<Item> items, std::int64_t most_rows);
  void score_batch(std::span<const Item> items, std::int64_t length);
  void judge(std::span<const Item> items, ConstTensor logits) const;
  void take(std::span<const Item> items, ConstTensor scores) const;

  std::function<void(std::int64_t tokens)> scored_;
  double temperature_;
  std::int64_t window_, tokens_;  // tokens_: of a batch, padding included
  std::int64_t judged_rows_;      // of a batch whose logits go to the host, padding included
  bool judges_ = false;           // there is room for these
  Stream stream_;
  Pass pass_;
};

}  // namespace mt
