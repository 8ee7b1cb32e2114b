// Branch: one residual branch of a layer.  x, y: [rows, hidden_size].
//   y = x + dropout(f(norm(x)))
//   y = x + dropout(multiplier post(f(norm(x))))
//   y = norm(x) + dropout(f(norm(x)))
//   y = x + lambda dropout(f(norm(x)))                       lambda: [hidden_size]
//   y = x + drop_path(dropout(f(norm(x))))
// f is a module, which drops and adds the residual itself where nothing is between.  Either norm
// may be absent.
#pragma once

#include <optional>
#include <variant>

#include "nn/chunked_cross_attention.h"
#include "nn/experts.h"
#include "nn/gated_delta_net.h"
#include "nn/latent_attention.h"
#include "nn/mamba.h"
#include "nn/mlp.h"
#include "nn/parallel_block.h"
#include "nn/self_attention.h"

namespace mt {

class Branch {
 public:
  using Module = std::variant<SelfAttention, LatentAttention, CrossAttention, ChunkedCrossAttention,
                              Mlp, ParallelBlock, Experts, Mamba, GatedDeltaNet>;
  struct Saved {
    Tensor normed;  // empty: the backward makes it again
    Norm::Saved norm;
    std::variant<std::monostate, SelfAttention::Saved, LatentAttention::Saved,
                 CrossAttention::Saved, ChunkedCrossAttention::Saved, Mlp::Saved,
                 ParallelBlock::Saved, Experts::Saved, Mamba::Saved, GatedDeltaNet::Saved>
        module;
    Tensor made;  // by the module, for the norm behind it
    Norm::Saved post;
  };
  // Behind: what becomes of what the module makes.  With a norm, the module drops nothing.
  struct Behind {
    std::optional<Norm> norm = {};
    double multiplier = 1;
    double dropout = 0;  // with a norm
    Purpose purpose = Purpose::hidden_dropout1;
    std::int64_t layer = 0;
    bool to_normed = false;  // it is added to what the norm in front made; nothing else is
    // How often a sequence passes the module over while the model learns; else what the module
    // makes is divided by 1 - drop_path (Huang et al.: arXiv:1603.09382).
    double drop_path = 0;
    const Param* lambda = nullptr;  // where it has one, there is no norm
    bool is_anything() const { return norm || lambda || multiplier != 1 || drop_path > 0; }
  };
  Branch(std::optional<Norm> norm, Module module, bool recompute_norm = false)
      : Branch(norm, std::move(module), recompute_norm, Behind{}) {}
  Branch(std::optional<Norm> norm, Module module, bool recompute_norm, const Behind& behind)
      : norm_(norm), module_(std::move(module)), recompute_norm_(recompute_norm), behind_(behind) {}

  // The first of its weights, for the branch before to read ahead; not to be multiplied with.
  ConstTensor first_weight() const;

  // y is not x; empty: not wanted.  ahead: as in Matmul.
  void forward(Step& s, Tensor y, ConstTensor x, Saved* saved, ConstTensor ahead = {}) const;
  // dx is not dy.
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& saved) const;

 private:
  ConstTensor normed(Step& s, ConstTensor x, const Saved& saved) const;
  Dropout dropout(const Step& s) const;
  void drop_path(Step& s, Tensor y, ConstTensor x) const;
  void run(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
           ConstTensor ahead) const;
  void lambda_backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x) const;
  Tensor gradient_behind(Step& s, ConstTensor dy, const Saved& saved) const;

  std::optional<Norm> norm_;
  Module module_;
  bool recompute_norm_;
  Behind behind_;
};

}  // namespace mt
