// IctDataset: a sentence and the block of text it is from, by which a retriever learns to find the
// one with the other: the inverse cloze task (Lee, Chang, Toutanova: arXiv:1906.00300, section 3;
// as Megatron-LM core_v0.12.1 does it, megatron/legacy/data/ict_dataset.py).
//   query    [CLS] sentence [SEP], padding
//   context  [CLS] title [SEP] block [SEP], padding
//   query_mask, context_mask   1, but 0 for padding
// The sentence is taken out of the block but for query_in_block_prob of the samples.  Upstream
// draws sentences from one stream of Python's for all samples, so that they depend on who reads
// them when; here a sample is a function of seed and number: numpy's RandomState(seed + number)
// draws the sentence, then whether it stays.
#pragma once

#include <cstdint>
#include <span>

#include "data/samples/masking.h"
#include "data/samples/sentence_map.h"
#include "data/samples/shown_sample.h"

namespace mt {

struct IctDatasetOptions {
  ItemRange documents = {};
  std::int64_t seq_length = 0;
  std::uint32_t seed = 1234;
  std::optional<std::int64_t> num_samples = {};  // at least so many; absent: one epoch
  double query_in_block_prob = 0.1;
  bool use_one_sent_docs = false;  // blocks of one sentence
};

// Where a sample goes; each span has seq_length elements.
struct IctSample {
  std::span<std::int32_t> query, query_mask, context, context_mask;
};

class IctDataset {
 public:
  // `data`: a file of sentences, `titles`: one with a sequence for each of its documents; they and
  // `pieces` must outlive the dataset.
  IctDataset(const IndexedDataset& data, const IndexedDataset& titles, const WordPieces& pieces,
             const IctDatasetOptions& options, const IndexCache& cache = {});

  std::int64_t size() const { return map_.size(); }
  std::int64_t seq_length() const { return options_.seq_length; }

  // Where the block is from: sentences of the file, document of it, number of the block.
  struct Facts {
    ItemRange sentences = {};
    std::int64_t document = 0, block = 0;
  };
  Facts get(std::int64_t k, const IctSample& sample) const;  // 0 <= k < size()
  std::vector<std::string> lines(std::int64_t k, const Tokenizer& tokenizer) const {
    return show(k, tokenizer).lines();
  }
  void write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const {
    show(k, tokenizer).write(json);
  }

  const BlockMap& map() const { return map_; }
  const std::string& name() const { return data_.name(); }

 private:
  ShownSample show(std::int64_t k, const Tokenizer& tokenizer) const;

  const IndexedDataset &data_, &titles_;
  const WordPieces& pieces_;
  IctDatasetOptions options_;
  BlockMap map_;
};

}  // namespace mt
