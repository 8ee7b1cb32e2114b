// ExpertParallel: the ranks that share the experts of each layer (Lepikhin et al.:
// arXiv:2006.16668, section 3.2).  They form a grid of `expert_ranks` x `tensor_ranks`: those that
// differ in the first have other experts, the others have parts of the matrices of the same.  Each
// has rows of its own, as many as the others.
//   gathers   all rows, and where they go, come to all ranks, and parts of the results are summed
//   else      a row travels to the ranks of its experts, and their results back
#pragma once

#include <cstdint>
#include <optional>

#include "comm/group.h"
#include "tensor/tensor.h"

namespace mt {

// RouterSums: the numbers that a layer's router sums: for each loss of its choices those of
// kernels/router_losses.h, 2 + experts, behind them how many of the tokens' choices were dropped,
// and then, if they are what experts are chosen by, quantiles (kernels/quantile_balance.h), one for
// each expert, of a micro-batch's tokens on all ranks.
struct RouterSums {
  std::int64_t experts = 0, losses = 0;
  bool quantiles = false;

  constexpr std::int64_t dropped() const { return losses * (2 + experts); }
  constexpr std::int64_t first_quantile() const { return dropped() + 1; }
  constexpr std::int64_t count() const { return first_quantile() + (quantiles ? experts : 0); }
};

// RouterLosses: what a step adds to its objective for its routers, and what it finds of them.
struct RouterLosses {
  ConstTensor weight =
      {};  // [1] f64 on the device: in the objective, of those of a micro-batch; empty: 1
  ConstTensor scale =
      {};            // [1] f64 on the device: what else they are multiplied by; empty: nothing
  Tensor sums = {};  // [layers, RouterSums::count()] f64
  // [2 layers, experts] f64: how often all data-parallel ranks have chosen each expert in the
  // step's micro-batches so far; of each layer those of its forwards, and of such as are repeated.
  Tensor so_far = {};
};

class ExpertParallel {
 public:
  struct Options {
    int tensor_ranks = 1;
    bool gathers = true;
    // Room for so many times the rows that each rank has when all experts have as many; none: for
    // as many as there can be.
    std::optional<double> buffer_factor = {};
  };
  // ranks: all of the grid, those of one expert one after another.
  ExpertParallel(Group& ranks, const Options& options) : ranks_(ranks), options_(options) {}

  Group& ranks() const { return ranks_; }
  int tensor_ranks() const { return options_.tensor_ranks; }
  int expert_ranks() const { return ranks_.size() / options_.tensor_ranks; }
  int expert_rank() const { return ranks_.rank() / options_.tensor_ranks; }
  bool gathers() const { return options_.gathers; }
  std::optional<double> buffer_factor() const { return options_.buffer_factor; }
  bool is_shared() const { return ranks_.size() > 1; }

  // In training.
  const std::optional<RouterLosses>& losses() const { return losses_; }
  void set_losses(const std::optional<RouterLosses>& losses) { losses_ = losses; }
  void weigh_losses(ConstTensor weight) { losses_->weight = weight; }

 private:
  Group& ranks_;
  Options options_;
  std::optional<RouterLosses> losses_;
};

}  // namespace mt
