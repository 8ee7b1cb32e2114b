// Sizes: how many layers a model has, how wide it is, and its vocabulary.  Multipliers: numbers
// that it multiplies hidden states and logits with.
#pragma once

#include <cstdint>

namespace mt {

struct Sizes {
  std::int64_t num_layers = 0, hidden_size = 0;
  std::int64_t make_vocab_size_divisible_by = 128;
  std::int64_t vocab_size = 0;         // the tokenizer's
  std::int64_t padded_vocab_size = 0;  // 0: derived by pad_vocabulary()
  bool untie_embeddings_and_output_weights = false;

  void pad_vocabulary(int tensor_ranks);  // and checks that it holds the tokenizer's
};

struct Multipliers {
  double embedding_mult = 1;           // of words, before the layers
  double residual_mult = 1;            // of what each branch adds
  double logit_scale = 1;              // of logits, which then
  double final_logit_softcapping = 0;  // C: become C tanh(logit / C); 0: stay
};

}  // namespace mt
