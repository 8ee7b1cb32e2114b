// IctSamples: what a model of two towers reads of ICT's samples (data/samples/ict_dataset.h):
//   ids, lengths, positions                          the query
//   encoder_ids, encoder_lengths, encoder_positions  the context
//   types       0, of either
//   loss_mask   1
#pragma once

#include <memory>

#include "data/samples/ict_dataset.h"
#include "data/samples/sample_kinds.h"
#include "data/samples/samples.h"

namespace mt {

// What samples of a query and so many contexts bring, each of at most so many tokens.
FieldSpecs query_fields(std::int64_t seq_length, std::int64_t contexts = 1);

// Fills these fields of one sample, of those that it has.  Each text has at least one token, and as
// many as there is room for at most.
using TokenSpans = std::span<const std::span<const std::int32_t>>;
void fill_query(const Fields& sample, std::span<const std::int32_t> query, TokenSpans contexts,
                std::int32_t padding);

class IctSamples final : public Samples {
 public:
  IctSamples(const IndexedDataset& data, const IndexedDataset& titles, const WordPieces& pieces,
             const IctDatasetOptions& options, const IndexCache& cache)
      : dataset_(data, titles, pieces, options, cache),
        fields_(query_fields(options.seq_length)),
        padding_(pieces.special.pad) {}

  const std::string& name() const override { return dataset_.name(); }
  std::int64_t size() const override { return dataset_.size(); }
  const FieldSpecs& fields() const override { return fields_; }
  void get(std::int64_t k, const Fields& sample) const override;
  std::vector<std::string> lines(std::int64_t k, const Tokenizer& tokenizer) const override {
    return dataset_.lines(k, tokenizer);
  }
  void write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const override {
    dataset_.write(k, tokenizer, json);
  }
  Indexes indexes() const override {
    const bool made = dataset_.map().rows().made();
    return {.files = 1, .made = made, .found = !made};
  }

 private:
  IctDataset dataset_;
  FieldSpecs fields_;
  std::int32_t padding_;
};

// Samples of each file of sentences with its file of titles.  Files and pieces must outlive it.
std::unique_ptr<SampleKind> ict_samples(const TokenFiles& files, const TokenFiles& titles,
                                        const WordPieces& pieces, const IctDatasetOptions& options);

}  // namespace mt
