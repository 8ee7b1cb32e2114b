// RewardPass: passes that say how good a GPT with a head of one score finds texts, each asked at
// its last token; many short ones run together.  On the CPU what a text is worth depends neither on
// the number of threads nor on what runs beside it (infer/padding.h).  Not thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "model/pass.h"

namespace mt {

class RewardPass {
 public:
  struct Options {
    std::int64_t longest = 0;  // tokens of a text at most
    std::int64_t batch = 1;    // texts of that length at a time, of shorter ones more
    int threads = 0;           // of the CPU; 0: one a core
  };
  RewardPass(const Model& model, const Options& options);

  // Of texts of a token at least.
  void judge(std::span<const std::span<const std::int32_t>> texts, std::span<double> rewards);

 private:
  struct Item {
    std::span<const std::int32_t> text;
    double* reward;
  };
  void judge_batch(std::span<const Item> items, std::int64_t length);

  std::int64_t tokens_;  // of a batch, padding included
  Stream stream_;
  Pass pass_;
};

}  // namespace mt
