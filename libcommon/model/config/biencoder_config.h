// BiencoderConfig: what a model of two towers has beside a BERT's layers, in Megatron-LM's words:
// one tower makes a vector of a query, the other of a context, from the hidden state of its [CLS];
// or one tower makes both.
#pragma once

#include <cstdint>

namespace mt {

struct BiencoderConfig {
  bool biencoder_shared_query_context_model = false;
  std::int64_t biencoder_projection_dim = 0;  // width of the vectors; 0: the hidden size, as it is

  std::int64_t towers() const { return biencoder_shared_query_context_model ? 1 : 2; }
};

}  // namespace mt
