// BertPacks: rows of several samples of a BertDataset, so that less of what is computed is padding
// (--pack-sequences; Krell et al.: arXiv:2107.02027).  A row is a sample to whoever reads it:
//   ids, positions, types  those of its samples, one sample after another, then padding
//   lengths                tokens of each sample, K places; 0 where there are fewer
//   masked, labels, loss_mask  of all its samples; places are in the row
//   order, order_mask      of each sample, K places
// Samples are taken in their order.  Each goes into the row with the least room that holds it, of
// 32 rows that are open; where none does, the fullest is closed and another opened.  A row's number
// is by when it was closed, so rows follow from the lengths of samples alone.  Thread-safe.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "data/samples/bert_dataset.h"

namespace mt {

class BertPacks final : public Samples {
 public:
  // Rows instead of samples are what options.num_samples counts.
  BertPacks(const IndexedDataset& data, const WordPieces& pieces, const BertDatasetOptions& options,
            const IndexCache& cache = {});

  const std::string& name() const override { return samples_->name(); }
  std::int64_t size() const override { return std::ssize(ends_); }
  const FieldSpecs& fields() const override { return fields_; }
  void get(std::int64_t k, const Fields& row) const override;
  std::vector<std::string> lines(std::int64_t k, const Tokenizer& tokenizer) const override;
  void write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const override;
  Indexes indexes() const override { return samples_->indexes(); }

  const BertDataset& samples() const { return *samples_; }
  std::span<const std::uint32_t> samples_of(std::int64_t k) const;

 private:
  void pack();

  std::int32_t padding_;
  FieldSpecs fields_;
  std::unique_ptr<const BertDataset> samples_;
  std::vector<std::uint32_t> packed_, ends_;  // samples by rows, and where each row ends in them
};

}  // namespace mt
