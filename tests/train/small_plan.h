// A plan of a small model, for the tests of plans.
#pragma once

#include "train/options/pretrain_options.h"
#include "train/plan/plan.h"
#include "train/run/pretraining.h"

namespace mt {

inline PretrainOptions small_model() {
  PretrainOptions o;
  o.model.num_layers = 4;
  o.model.hidden_size = 64;
  o.model.num_attention_heads = 4;
  o.model.max_position_embeddings = 64;
  o.model.vocab_size = 256;
  o.model.untie_embeddings_and_output_weights = true;
  o.data.seq_length = 64;
  o.run.batch.micro_batch_size = 2;
  o.run.batch.global_batch_size = 16;
  o.run.compute.bf16 = true;
  o.plan.wanted = true;
  return o;
}

inline Plan plan_of(PretrainOptions o) {
  o.complete();
  return make_plan(o.run, Pretraining(o.model, o.data), o.plan);
}

}  // namespace mt
