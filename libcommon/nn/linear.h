// Linear: y = x W^T + b.  x: [tokens, in], y: [tokens, out], W: [out, in], b: [out] or none.
// With a norm, which only a forward without backward may give, norm(x) takes the place of x.
//
// Tensor-parallel ranks share W as its segments are cut: by outputs, each rank making its columns
// of y, or by inputs, each reading its columns of x.  The other of x and y is [rows, …] of hidden
// states (nn/tensor_parallel.h).
//
// With an adapter (nn/adapter.h) W is W + scale B A, with others beside it (nn/side_adapters.h)
// each sequence's own.  A frozen W may be packed (nn/packed_weight.h).  Without an adapter all
// three products may be of codes of eight bits (nn/fp8_layers.h).
#pragma once

#include <optional>

#include "nn/adapter.h"
#include "nn/norm.h"

namespace mt {

struct Dropout;
struct HeadProductShape;

class Linear {
 public:
  // `weight` describes the weight; a bias takes its place and segments from it.  `adapter` may have
  // no parts: then there is none.
  Linear(ParamTable& table, Param weight, bool bias, const Adapter::Options& adapter = {});

  void forward(Step& s, Tensor y, ConstTensor x, const Norm* norm = nullptr) const;
  // y = gelu(x W^T + b), in the tanh form, or silu of the left half of x W^T + b times its right
  // half; `at` is where x W^T + b goes.
  void forward_gelu(Step& s, Tensor y, Tensor at, ConstTensor x, const Norm* norm = nullptr) const;
  void forward_swiglu(Step& s, Tensor y, Tensor at, ConstTensor x,
                      const Norm* norm = nullptr) const;
  // y = residual + dropout(x W^T + b);  ahead: as in Matmul
  void forward_add(Step& s, Tensor y, ConstTensor residual, ConstTensor x, const Dropout& dropout,
                   ConstTensor ahead = {}) const;
  // Multiplies with rows of W, those of each head, as the shape says (kernels/cached_latents.h): of
  // a weight without a bias that no adapter adds to.
  void multiply_heads(Step& s, Tensor out, ConstTensor x, const HeadProductShape& shape) const;
  // dx empty: not wanted.  With `gelu_at`, x = gelu(gelu_at), and dx is the gradient of gelu_at.
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                const Tensor& gelu_at = {}) const;
  ConstTensor weight() const { return weight_->value; }            // not to be multiplied with
  std::int64_t out_features() const { return weight_->local[0]; }  // of this rank

 private:
  bool cut_by_outputs() const { return weight_->is_cut() && weight_->dimension == 0; }
  bool cut_by_inputs() const { return weight_->is_cut() && weight_->dimension == 1; }
  // Whether an adapter's part is added to a product, which takes nothing else along then.
  bool is_adapted(const Step& s) const;
  bool is_narrow(const Step& s) const;  // whether it multiplies codes of eight bits
  ConstTensor bias(const Step& s) const;
  // problem.out, .bias and what follows are the caller's.  `sum`: of products over ranks.
  void multiply(Step& s, Matmul problem, ConstTensor x, const Norm* norm = nullptr,
                const Tensor& sum = {}) const;

  const Param* weight_;
  const Param* bias_ = nullptr;
  std::optional<Adapter> adapter_;
};

}  // namespace mt
