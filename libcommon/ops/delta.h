// The operations of a mixer with the gated delta rule (kernels/causal_conv.h, delta_rule.h,
// delta_norm.h), and of attention's gate (output_gate.h).  Rows and their parts are as
// kernels/delta_shape.h says; rstd and states are of the sum_dtype, first_key of i32.  On a GPU
// heads have at most kMostDeltaDim channels.
#pragma once

#include "kernels/delta_norm.h"
#include "kernels/delta_shape.h"
#include "ops/mamba.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// w: [channels, taps] or [channels, 1, taps].
void causal_conv_forward(Tensor mixed, ConstTensor projected, ConstTensor w, ConstTensor first_key,
                         const SequencePast& past, const DeltaShape& shape, Stream& stream);
void causal_conv_backward(Tensor d_projected, Tensor dw, ConstTensor d_mixed, ConstTensor projected,
                          ConstTensor w, ConstTensor first_key, const DeltaShape& shape,
                          Stream& stream);

struct DeltaParams {
  ConstTensor dt_bias, a_log;  // [value_heads]
};
struct DeltaParamGradients {
  Tensor dt_bias, a_log;
};
void delta_rule_forward(Tensor y, ConstTensor mixed, ConstTensor projected,
                        const DeltaParams& params, ConstTensor first_key, const SequencePast& past,
                        const DeltaShape& shape, Stream& stream);
void delta_rule_backward(Tensor d_mixed, Tensor d_projected, const DeltaParamGradients& gradients,
                         ConstTensor dy, ConstTensor mixed, ConstTensor projected,
                         const DeltaParams& params, ConstTensor first_key, const DeltaShape& shape,
                         Stream& stream);

void delta_norm_forward(Tensor out, Tensor rstd, ConstTensor y, ConstTensor projected,
                        ConstTensor w, const DeltaNorm& norm, const DeltaShape& shape,
                        Stream& stream);
void delta_norm_backward(Tensor dy, Tensor d_projected, Tensor dw, ConstTensor d_out, ConstTensor y,
                         ConstTensor projected, ConstTensor rstd, ConstTensor w,
                         const DeltaNorm& norm, const DeltaShape& shape, Stream& stream);

// x, gate: [tokens, heads, head_dim].
void output_gate_forward(Tensor y, ConstTensor x, ConstTensor gate, Stream& stream);
void output_gate_backward(Tensor dx, Tensor d_gate, ConstTensor dy, ConstTensor x, ConstTensor gate,
                          Stream& stream);
// both: [tokens, 2 heads, head_dim]; of each of so many groups first the queries, then the gates.
void split_gates(Tensor q, Tensor gate, ConstTensor both, std::int64_t groups, Stream& stream);
void merge_gates(Tensor both, ConstTensor q, ConstTensor gate, std::int64_t groups, Stream& stream);

}  // namespace mt
