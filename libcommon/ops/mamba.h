// The operations of a Mamba-2's mixer (kernels/causal_conv.h, chunk_scan.h, gated_norm.h,
// head_shares.h).  Rows
// and their parts are as kernels/mamba_shape.h says; rstd and states are of the sum_dtype,
// first_key and what says where a cache's slots are of i32.
#pragma once

#include "kernels/head_shares.h"
#include "kernels/mamba_shape.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// SequencePast: what the sequences of a generation had before their tokens, in the slots of a cache
// that is brought up to date; without a cache they had nothing.  slots: [sequences], or empty: the
// one sequence's is `slot`.  ahead: as in Matmul, behind a scan of one token.
struct SequencePast {
  Tensor cache;           // of what the operation keeps
  ConstTensor positions;  // [tokens]
  ConstTensor slots = {};
  std::int64_t slot = 0;
  ConstTensor ahead = {};

  CacheSlots places() const {
    if (!cache) return {};
    return {.positions = positions.as<std::int32_t>(),
            .slots = slots ? slots.as<std::int32_t>() : nullptr,
            .slot = slot};
  }
};

// w: [channels, taps] or [channels, 1, taps].
void causal_conv_forward(Tensor mixed, ConstTensor projected, ConstTensor w, ConstTensor b,
                         ConstTensor first_key, const SequencePast& past, const MambaShape& shape,
                         Stream& stream);
void causal_conv_backward(Tensor d_projected, Tensor dw, Tensor db, ConstTensor d_mixed,
                          ConstTensor projected, ConstTensor w, ConstTensor b,
                          ConstTensor first_key, const MambaShape& shape, Stream& stream);

struct ScanParams {
  ConstTensor dt_bias, a_log, d;  // [heads]
};
struct ScanParamGradients {
  Tensor dt_bias, a_log, d;
};
void chunk_scan_forward(Tensor y, ConstTensor mixed, ConstTensor projected,
                        const ScanParams& params, ConstTensor first_key, const SequencePast& past,
                        const MambaShape& shape, Stream& stream);
void chunk_scan_backward(Tensor d_mixed, Tensor d_projected, const ScanParamGradients& gradients,
                         ConstTensor dy, ConstTensor mixed, ConstTensor projected,
                         const ScanParams& params, ConstTensor first_key, const MambaShape& shape,
                         Stream& stream);

void gated_norm_forward(Tensor out, Tensor rstd, ConstTensor y, ConstTensor projected,
                        ConstTensor w, double eps, const MambaShape& shape, Stream& stream);
void gated_norm_backward(Tensor dy, Tensor d_projected, Tensor dw, ConstTensor d_out, ConstTensor y,
                         ConstTensor projected, ConstTensor rstd, ConstTensor w,
                         const MambaShape& shape, Stream& stream);

// shares: [tokens, of.ranks, columns] or [tokens, all columns].
void split_heads(Tensor shares, ConstTensor projected, const HeadShares& of, Stream& stream);
void merge_heads(Tensor d_projected, ConstTensor d_shares, const HeadShares& of, Stream& stream);

}  // namespace mt
