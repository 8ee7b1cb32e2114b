// GatedDeltaNet: a mixer with the gated delta rule (Yang, Kautz, Hatamizadeh: arXiv:2412.06464),
// and the residual around it.
//   q, k, v, z, beta, alpha = W_in x       y = rule(silu(conv(q, k, v)), beta, alpha)
//   out = residual + dropout(W_out (norm(y) silu(z)))
// x, out, residual: [rows, hidden_size].  The rule (kernels/delta_rule.h) goes over each sequence,
// or each of its documents, which the Step's first_key parts; with a past in the Step it goes on
// from what is in the cache.
#pragma once

#include "kernels/delta_norm.h"
#include "kernels/delta_shape.h"
#include "nn/linear.h"

namespace mt {

struct DeltaParams;

class GatedDeltaNet {
 public:
  struct Options {
    DeltaShape shape;        // of a rank's heads; of no sequences
    std::int64_t layer = 0;  // of this model, from 0: the cache's, and of its random numbers
    DeltaNorm norm;
    double hidden_dropout = 0;
  };
  struct Params {
    const Param *conv_weight, *dt_bias, *a_log, *norm;
  };
  struct Saved {
    Tensor projected, y, rstd;  // what W_in makes; of the rule; of the norm
  };
  GatedDeltaNet(Linear in, Linear out, const Params& params, const Options& options)
      : in_(in), out_(out), params_(params), options_(options) {}

  ConstTensor first_weight() const { return in_.weight(); }  // not to be multiplied with

  // out empty: not wanted.  With a norm, x is its input.  ahead: as in Matmul.
  void forward(Step& s, Tensor out, ConstTensor residual, ConstTensor x, Saved* saved,
               const Norm* norm = nullptr, ConstTensor ahead = {}) const;
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                const Saved& saved) const;  // without the residual

 private:
  DeltaShape shape(const Step& s) const;
  DeltaParams params(const Step& s) const;
  Tensor gradient_of(Step& s, const Param& param) const;
  Dropout hidden_dropout(const Step& s) const;
  void done(Step& s) const;

  Linear in_, out_;
  Params params_;
  Options options_;
};

}  // namespace mt
