// What a run needs to train a T5, for tests: its options, for a token file of sentences.
#pragma once

#include <string>

#include "train/options/pretrain_options.h"

namespace mt {

// Makes them those of a T5 that reads this file, with as many layers of the encoder as of the
// decoder.
inline void make_t5(PretrainOptions& o, const std::string& prefix) {
  o.model_type = "t5";
  if (o.model.position_embedding_type == "relative") {
    o.encoder.relative_attention_num_buckets = 8;
    o.encoder.relative_attention_max_distance = 12;
  }
  o.data.masks.mask_prob = 0.3;
  o.data.masks.decoder_seq_length = 12;
  o.data.sources.data_path = {prefix};
  o.data.eod_mask_loss = false;
  o.data.tokenizer = {"BertWordPieceLowerCase", std::string(MT_TESTDATA) + "/wordpiece/vocab.txt",
                      ""};
  o.data.tokenizer.extra_ids = 20;
  o.choose_type();
}

}  // namespace mt
