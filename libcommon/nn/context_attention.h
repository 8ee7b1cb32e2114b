// Attention among ranks that share sequences (context_parallel.h).
#pragma once

#include "nn/attention_core.h"

namespace mt {

// These are attention_forward() and its backward, of this rank's tokens over all ranks' keys,
// packed only where heads alone are exchanged, causal where keys go round a ring.  lse has as many
// elements as there, in an order of its own.
void context_attention_forward(Step& s, const AttentionCore::Saved& found, const Qkv& heads,
                               const Keys& keys, const AttentionShape& shape,
                               const Dropout& dropout, const AttentionCore::Options& of);
void context_attention_backward(Step& s, const Qkv& gradients, ConstTensor d_o,
                                const AttentionCore::Saved& found, const Qkv& heads,
                                const Keys& keys, const AttentionShape& shape,
                                const Dropout& dropout, const AttentionCore::Options& of);

}  // namespace mt
