// BertDataset: pairs of runs of sentences with masked tokens, as BERT is trained on (Megatron-LM
// core_v0.12.1, megatron/core/datasets/bert_dataset.py, draw for draw).  A sample is a function of
// seed and number.
//   ids          [CLS] A [SEP] B [SEP], some of it masked, then padding; with lengths and positions
//   types        0 from [CLS] to the first [SEP], 1 to the second, 0 for padding
//   masked       which tokens are masked, M places, of which only a longest sample needs all
//   labels       what was there, [M]           loss_mask  1, but 0 where a place is not needed, [M]
//   order        1 where B stood before A      order_mask  1
// Types and order are there only with a binary head.  Then A and B follow each other, and half
// of the samples have them the other way round; without one there is no B.  What is too long is
// taken away from the ends of the longer one.  Thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "data/samples/masking.h"
#include "data/samples/samples.h"
#include "data/samples/sentence_map.h"
#include "data/samples/shown_sample.h"

namespace mt {

struct BertDatasetOptions {
  ItemRange documents = {};
  std::int64_t seq_length = 0;
  std::uint32_t seed = 1234;
  std::optional<std::int64_t> num_samples = {};  // at least so many; absent: one epoch
  double mask_prob = 0.15, short_seq_prob = 0.1;
  bool binary_head = true;
};

// A sample as Megatron-LM has it, each span of seq_length elements: labels are -1 where nothing is
// masked, padding_mask is 1 but 0 for padding.  Upstream writes the id of [PAD] where types and
// padding_mask are 0 here.
struct BertSample {
  std::span<std::int32_t> text, types, labels, padding_mask, loss_mask;
};

// What its samples bring, or rows of up to so many of them (bert_packs.h).
FieldSpecs bert_fields(std::int64_t seq_length, double mask_prob, bool binary_head,
                       std::int64_t texts = 1);

class BertDataset final : public Samples {
 public:
  // `data`: a file of sentences; it and `pieces` must outlive the dataset.
  BertDataset(const IndexedDataset& data, const WordPieces& pieces,
              const BertDatasetOptions& options, const IndexCache& cache = {});

  const std::string& name() const override { return data_.name(); }
  std::int64_t size() const override { return map_.size(); }
  std::int64_t seq_length() const { return options_.seq_length; }
  const FieldSpecs& fields() const override { return fields_; }
  void get(std::int64_t k, const Fields& sample) const override;
  std::vector<std::string> lines(std::int64_t k, const Tokenizer& tokenizer) const override {
    return show(k, tokenizer).lines();
  }
  void write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const override {
    show(k, tokenizer).write(json);
  }
  Indexes indexes() const override { return map_.indexes(); }

  struct Facts {
    bool is_random = false;  // B comes before A in the document
    bool truncated = false;
  };
  Facts get(std::int64_t k, const BertSample& sample) const;

  const SentenceMap& map() const { return map_; }
  // How many tokens sample k has at most.
  std::int64_t longest(std::int64_t k) const;

 private:
  struct Made;
  Made make(std::int64_t k) const;
  ShownSample show(std::int64_t k, const Tokenizer& tokenizer) const;

  const IndexedDataset& data_;
  const WordPieces& pieces_;
  BertDatasetOptions options_;
  FieldSpecs fields_;
  SentenceMap map_;
  Masking masking_;
};

}  // namespace mt
