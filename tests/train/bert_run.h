// What a run needs to train a BERT, for tests: a token file of sentences, and its options.
#pragma once

#include <random>
#include <string>

#include "tests/data/support.h"
#include "train/options/pretrain_options.h"

namespace mt {

// Documents of two to six sentences of three to eight tokens.
inline void write_sentences(const std::string& prefix) {
  IndexedDatasetWriter writer(prefix, TokenType::u16, {});
  std::mt19937 engine(5);
  for (int d = 0; d < 60; ++d) {
    std::vector<std::int32_t> tokens, lengths;
    for (auto left = 2 + engine() % 5; left > 0; --left) {
      lengths.push_back(static_cast<std::int32_t>(3 + engine() % 6));
      for (std::int32_t i = 0; i < lengths.back(); ++i)
        tokens.push_back(static_cast<std::int32_t>(10 + engine() % 190));
    }
    writer.add_document(tokens, lengths);
  }
  writer.finish();
  writer.commit({});
}

// Makes them those of a BERT that reads this file.
inline void make_bert(PretrainOptions& o, const std::string& prefix, bool binary_head = true) {
  o.model_type = "bert";
  o.data.masks.binary_head = binary_head;
  o.data.masks.mask_prob = 0.3;
  o.data.sources.data_path = {prefix};
  o.data.eod_mask_loss = false;
  o.data.tokenizer = {"BertWordPieceLowerCase", std::string(MT_TESTDATA) + "/wordpiece/vocab.txt",
                      ""};
  o.choose_type();
}

}  // namespace mt
