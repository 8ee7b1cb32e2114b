// Experts: MLPs of which each token goes to a few, in the place of an Mlp, and the residual around
// them (Jiang et al.: arXiv:2401.04088, section 2.1).
//   y = residual + dropout(sum over the chosen e of p_e W_2e act(W_1e x))
// or, where experts have biases, of p_e (W_2e act(W_1e x + b_1e) + b_2e), to which shared experts
// may add what they make of all tokens (nn/shared_experts.h), and where a router chooses by the
// logits W_r x, and gives p (kernels/experts.h).  Experts of latents read W_down x instead of x,
// and what they make is added up and then multiplied by W_up, of projections that a layer has once,
// and every rank whole (Megatron-LM's --moe-latent-size).  Experts may have room for so many of a
// rank's tokens alone (kernels/expert_capacity.h).  x, y, residual: [rows, hidden_size].  This rank
// has some of the layer's experts, or parts of them (nn/expert_parallel.h).
#pragma once

#include "kernels/activation.h"
#include "kernels/experts.h"
#include "kernels/sinkhorn.h"
#include "nn/activation.h"
#include "nn/norm.h"
#include "nn/router_balance.h"
#include "nn/router_product.h"
#include "nn/shared_experts.h"
#include "nn/token_dispatch.h"

namespace mt {

class Experts {
 public:
  struct Saved {
    Tensor logits, expert;         // of this rank's rows
    Tensor counts;                 // of experts that were chosen, where there are losses of routers
    TokenDispatch::Saved arrived;  // and what came of all ranks', by experts:
    Tensor x, weight;              // rows, and their p
    Tensor h, a;                   // W_1 x, and, unless weighs_gates(), the activation of it
    Tensor weighed;                // that times p, or, with biases, W_2 a + b_2
    Tensor summed;                 // of latents: what W_up reads, of this rank's rows
    SharedExperts::Saved shared;
  };
  struct Expert {
    const Param *fc1, *fc2, *fc1_bias = nullptr,
                            *fc2_bias = nullptr;  // all have both biases or none
  };
  struct Latents {
    Linear down, up;
  };
  struct Options {
    RouterRules rules = {};
    std::int64_t layer = 0;  // as of Mlp
    double hidden_dropout = 0;
    std::optional<SharedExperts> shared = {};  // which read x itself
    std::optional<Latents> latents = {};
    double capacity_factor = 0;   // of the tokens that are an expert's share; 0: of all
    bool keeps_first = false;     // not those of largest p
    const Param* bias = nullptr;  // of the keys that experts are chosen by
    bool sinkhorn = false;  // training chooses by keys of all a rank's rows (kernels/sinkhorn.h)
    const Param* quantiles =
        nullptr;        // by which logits choose instead (kernels/quantile_balance.h)
    double jitter = 0;  // by how much, at most, training varies what the router reads
    Activation activation = Activation::swiglu;
    std::optional<ClampedGate> clamped = {};   // instead of that
    bool recompute_activation = false;         // the backward makes v.a and v.weighed again
    std::vector<BalanceLoss> balances = {{}};  // losses of its router's choices
    double z = 0;                              // what that of its logits weighs
  };
  // experts: this rank's, in their order.
  Experts(const RouterProduct& router, std::vector<Expert> experts, const Options& options)
      : router_(router),
        experts_(std::move(experts)),
        dispatch_(router.experts()),
        options_(options),
        balance_({.experts = router.experts(),
                  .chosen = options.rules.chosen,
                  .scores = options.rules.scores,
                  .layer = options.layer,
                  .losses = options.balances,
                  .z = options.z}) {}

  ConstTensor first_weight() const { return router_.weight().value; }  // not to be multiplied with

  // y empty: not wanted.  With a norm, x is its input.
  void forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
               const Norm* norm = nullptr, ConstTensor ahead = {}) const;
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                const Saved& saved) const;  // without the residual

 private:
  bool has_biases() const { return experts_[0].fc2_bias != nullptr; }
  bool is_swiglu() const { return !options_.clamped && options_.activation == Activation::swiglu; }
  // Whether SwiGLU comes with the first product; it might round otherwise than by itself.
  bool fuses_swiglu() const {
    return is_swiglu() && has_biases() && !options_.recompute_activation;
  }
  // Whether p multiplies what SwiGLU makes, in one pass over memory.
  bool weighs_gates() const { return is_swiglu() && !has_biases(); }
  void multiply_first(Step& s, const Saved& v) const;
  // v.weighed = p act(v.h), and v.a, where p does not multiply the activation in the same pass: of
  // experts without biases; of others v.a alone.
  void activate(Step& s, const Saved& v) const;
  Saved made_again(Step& s, const Saved& saved) const;  // with them
  // What experts read of x, and what they make of it for this rank's rows: with latents empty
  // where it is not wanted.
  ConstTensor read(Step& s, ConstTensor x) const;
  Tensor add_up(Step& s, Saved& v, const Saved* saved, bool wanted) const;
  void multiply_second(Step& s, Tensor out, ConstTensor x, const Saved& v) const;
  // dx = dy W, and the weights' gradients.
  void multiply_back(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& v,
                     const Param* Expert::*weight, const Param* Expert::*bias) const;
  // Has shared experts' work go beside the others', if there is a queue for it, until its end.
  bool goes_aside(const Step& s) const;
  void aside(Step& s, const std::function<void()>& work) const;
  std::int64_t width() const { return experts_[0].fc1->local[1]; }  // of what experts read
  std::int64_t ffn() const { return experts_[0].fc2->local[1]; }
  std::int64_t made() const { return experts_[0].fc1->local[0]; }  // by the first product
  ConstTensor with_room(Step& s, ConstTensor expert, ConstTensor p) const;
  bool varies(const Step& s) const { return options_.jitter > 0 && s.training; }
  Jitter jitter_of(const Step& s) const;
  void choose(Step& s, Tensor p, const Saved& v) const;  // of v.logits
  void choose_imposed(Step& s, Tensor p, const Saved& v) const;
  void weigh(Step& s, Tensor p, const Saved& v) const;
  void take_imposed(Step& s, Tensor p, const Saved& v) const;
  void keep_in_cache(const Step& s, ConstTensor expert) const;
  void choose_by_quantiles(Step& s, Tensor p, const Saved& v) const;
  bool counts_on_device(const Step& s) const;
  // body(expert, its first row, its last + 1, its group), also of those that have none: ranks that
  // have copies of experts gather their values and sum their gradients together.  Where
  // rows are counted on the device, each gets all experts' rows and its group.
  template <class Body>
  void for_each(const TokenDispatch::Saved& arrived, const Body& body) const;

  RouterProduct router_;
  std::vector<Expert> experts_;
  TokenDispatch dispatch_;
  Options options_;
  RouterBalance balance_;
};

}  // namespace mt
