// RouterBalance: losses that a router adds to a step's objective (kernels/router_losses.h): that of
// its logits, and those by which it chooses all experts as often.  Each of the latter is over the
// choices of a micro-batch, of each of its sequences, or of all data-parallel ranks' micro-batches
// of the step so far; a rank adds its share of all.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/router_losses.h"
#include "nn/expert_parallel.h"
#include "nn/step.h"

namespace mt {

struct BalanceLoss {
  enum class Over : std::uint8_t { micro_batch, sequences, global_batch };
  Over over = Over::micro_batch;
  double weight = 0;
};

class RouterBalance {
 public:
  struct Options {
    std::int64_t experts = 0, chosen = 0;
    RouterScores scores = RouterScores::softmax_of_all;  // what balances are of
    std::int64_t layer = 0;                              // its row of RouterLosses
    std::vector<BalanceLoss> losses = {{}};
    double z = 0;  // what that of the logits weighs
  };
  explicit RouterBalance(Options options) : options_(std::move(options)) {}

  static bool is_on(const Step& s);  // a step in training
  // Adds this rank's shares to the layer's sums, unless the forward is repeated for its backward.
  // Returns how often experts were chosen, as all ranks that a loss is over did, a group of rows a
  // line and the losses one after another.  expert: [rows, chosen].
  Tensor forward(Step& s, ConstTensor logits, ConstTensor expert, const void* saved) const;
  void backward(Step& s, Tensor d_logits, ConstTensor logits, ConstTensor counts) const;
  // How many choices an expert had no room for: those of `kept` that are -1.
  void add_drops(Step& s, ConstTensor kept) const;
  // Quantiles of the logits of all tokens of the micro-batch, less these biases.
  void add_quantiles(Step& s, ConstTensor logits, ConstTensor beta) const;

 private:
  struct Part {  // a loss, and its lines of the counts
    const BalanceLoss& loss;
    RouterGroups groups;
    RouterFactors factors;  // unweighed
    std::int64_t begin, end;
  };
  std::vector<Part> parts(const Step& s) const;
  Tensor sums_of_layer(const Step& s) const;
  RouterSums numbers() const {
    return {.experts = options_.experts, .losses = std::ssize(options_.losses)};
  }
  void sum_over_ranks(Step& s, Tensor counts) const;

  Options options_;
};

}  // namespace mt
