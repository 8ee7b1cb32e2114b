// Mamba: a Mamba-2's mixer (Dao, Gu: arXiv:2405.21060), and the residual around it.
//   z, xBC, dt = W_in x       y = scan(silu(conv(xBC)), dt)
//   out = residual + dropout(W_out norm(y silu(z)))
// x, out, residual: [rows, hidden_size].  The scan (kernels/chunk_scan.h) goes over each sequence,
// or each of its documents, which the Step's first_key parts; with a past in the Step it goes on
// from what is in the cache.  Ranks that share sequences exchange tokens for heads in front of the
// convolution and back behind the scan (core_v0.19.0, core/ssm/mamba_context_parallel.py).
#pragma once

#include "kernels/mamba_shape.h"
#include "nn/linear.h"

namespace mt {

struct SequencePast;
class HeadsHere;

class Mamba {
 public:
  struct Options {
    MambaShape shape;        // of a rank's heads and groups; of no sequences
    std::int64_t layer = 0;  // of this model, from 0: the cache's, and of its random numbers
    double norm_epsilon = 1e-5;
    double hidden_dropout = 0;
  };
  struct Params {
    const Param *conv_weight, *conv_bias, *dt_bias, *a_log, *d, *norm;
  };
  struct Saved {
    Tensor projected, y, rstd;  // what W_in makes; of the scan; of the norm
  };
  Mamba(Linear in, Linear out, const Params& params, const Options& options)
      : in_(in), out_(out), params_(params), options_(options) {}

  ConstTensor first_weight() const { return in_.weight(); }  // not to be multiplied with

  // out empty: not wanted.  With a norm, x is its input.  ahead: as in Matmul.
  void forward(Step& s, Tensor out, ConstTensor residual, ConstTensor x, Saved* saved,
               const Norm* norm = nullptr, ConstTensor ahead = {}) const;
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                const Saved& saved) const;  // without the residual

 private:
  MambaShape shape(const Step& s) const;
  Tensor convolve(Step& s, const HeadsHere& here, ConstTensor seen, const SequencePast& past) const;
  void gate(Step& s, Tensor normed, Tensor rstd, ConstTensor y, ConstTensor projected) const;
  void convolve_backward(Step& s, const HeadsHere& here, Tensor d_seen, ConstTensor d_mixed,
                         ConstTensor seen) const;
  Tensor gradient_of(Step& s, const Param& param) const;
  Dropout hidden_dropout(const Step& s) const;

  Linear in_, out_;
  Params params_;
  Options options_;
};

}  // namespace mt
