// Sinks of attention (kernels/attention_sink.h).
#pragma once

#include "kernels/attention_sink.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// o, d_o: any shape of sequences x q_length x heads x head_dim elements;  lse: [sequences, heads,
// q_length] of the sum_dtype, or as many;  sink: [heads] of o's type, or empty.
void add_sink(Tensor o, Tensor lse, ConstTensor sink, const SinkShape& shape, Stream& stream);
// d_sink: [heads], which is added to.
void sink_backward(Tensor d_sink, ConstTensor d_o, ConstTensor o, ConstTensor lse, ConstTensor sink,
                   const SinkShape& shape, Stream& stream);

}  // namespace mt
