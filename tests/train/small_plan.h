// A plan of a small model, for the tests of plans.
#pragma once

#include "train/plan/plan.h"

namespace mt {

inline TrainOptions small_model() {
  TrainOptions o;
  o.model.num_layers = 4;
  o.model.hidden_size = 64;
  o.model.num_attention_heads = 4;
  o.model.max_position_embeddings = 64;
  o.model.vocab_size = 256;
  o.model.untie_embeddings_and_output_weights = true;
  o.data.seq_length = 64;
  o.micro_batch_size = 2;
  o.global_batch_size = 16;
  o.compute.bf16 = true;
  o.plan = true;
  return o;
}

inline Plan plan_of(TrainOptions o) {
  o.complete();
  return make_plan(o);
}

}  // namespace mt
