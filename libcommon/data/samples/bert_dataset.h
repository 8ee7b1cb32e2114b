// BertDataset: pairs of runs of sentences with masked tokens, as BERT is trained on (Megatron-LM
// core_v0.12.1, megatron/core/datasets/bert_dataset.py, draw for draw).  A sample is a function of
// seed and number.
//   text         [CLS] A [SEP] B [SEP], some of it masked, then padding
//   types        0 from [CLS] to the first [SEP], 1 to the second, 0 for padding
//   labels       what was at a masked place, else -1          loss_mask  1 at a masked place, else
//   0 padding_mask 1, but 0 for padding
// With a binary head A and B follow each other, and half of the samples have them the other way
// round; without one there is no B.  What is too long is taken away from the ends of the longer
// one. Upstream writes the id of [PAD] where types and padding_mask are 0 here.
#pragma once

#include <cstdint>
#include <span>

#include "data/samples/masking.h"
#include "data/samples/sentence_map.h"

namespace mt {

struct BertDatasetOptions {
  ItemRange documents = {};
  std::int64_t seq_length = 0;
  std::uint32_t seed = 1234;
  std::optional<std::int64_t> num_samples = {};  // at least so many; absent: one epoch
  double mask_prob = 0.15, short_seq_prob = 0.1;
  bool binary_head = true;
};

// Where a sample goes; each span has seq_length elements.
struct BertSample {
  std::span<std::int32_t> text, types, labels, padding_mask, loss_mask;
};

class BertDataset {
 public:
  // `data`: a file of sentences; it and `pieces` must outlive the dataset.
  BertDataset(const IndexedDataset& data, const WordPieces& pieces,
              const BertDatasetOptions& options, const IndexCache& cache = {});

  std::int64_t size() const { return map_.size(); }
  std::int64_t seq_length() const { return options_.seq_length; }

  struct Facts {
    bool is_random = false;  // B comes before A in the document
    bool truncated = false;
  };
  Facts get(std::int64_t k, const BertSample& sample) const;  // 0 <= k < size()

  const SentenceMap& map() const { return map_; }
  const IndexedDataset& data() const { return data_; }

 private:
  const IndexedDataset& data_;
  const WordPieces& pieces_;
  BertDatasetOptions options_;
  SentenceMap map_;
  Masking masking_;
};

}  // namespace mt
