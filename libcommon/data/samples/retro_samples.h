// RetroSamples: a GPT's samples with what was retrieved for each chunk of them, as Megatron-LM
// core_v0.12.1 has them (megatron/core/datasets/retro/query/retro_dataset.py).  Beside a GPT's
// fields, of a sequence of l chunks:
//   encoder_ids        [l, neighbours, retrieved chunks, chunk_length]: each neighbour's chunk and
//                      those behind it in the database, behind whose last one stands its first
//   encoder_positions  0, 1, 2, … in each neighbour; with reset_position_ids they start again after
//                      each EOD
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/samples/samples.h"
#include "data/samples/split.h"

namespace mt {

// RetrievedChunks: a database of chunks, and which of them are neighbours of those of a run's
// samples.  Thread-safe.
class RetrievedChunks {
 public:
  virtual ~RetrievedChunks() = default;
  virtual std::int64_t size() const = 0;  // chunks of the database
  // A chunk's tokens, padded to as many as a chunk has.
  virtual void read(std::int64_t chunk, std::span<std::int32_t> tokens) const = 0;
  // For how many chunks of a split's samples neighbours are known.
  virtual std::int64_t queried(Split which) const = 0;
  // The first `each` neighbours of `count` chunks from `first` on, in the order of samples: [count,
  // each].
  virtual std::vector<std::int64_t> neighbors(Split which, std::int64_t first, std::int64_t count,
                                              std::int64_t each) const = 0;
};

struct RetroSampleOptions {
  std::int64_t chunk_length = 64, neighbors = 2, retrieved_chunks = 2;
  bool reset_position_ids = false;
  std::int64_t eod_id = -1;
  bool verify_count = true;  // neighbours must be known for as many chunks as the run asks for
  std::shared_ptr<const RetrievedChunks> retrieved = {};

  std::int64_t retrieved_length() const { return retrieved_chunks * chunk_length; }
  std::int64_t chunks(std::int64_t seq_length) const { return seq_length / chunk_length; }
};

// Adds the fields of what was retrieved to those of samples of this length.
void add_retro_fields(FieldSpecs& fields, std::int64_t seq_length,
                      const RetroSampleOptions& options);

class RetroSamples final : public Samples {
 public:
  // `count`: samples that the run asks of this split; sample numbers are taken modulo it.
  RetroSamples(std::unique_ptr<Samples> samples, Split which, std::int64_t count,
               std::int64_t seq_length, const RetroSampleOptions& options);

  const std::string& name() const override { return samples_->name(); }
  std::int64_t size() const override { return samples_->size(); }
  const FieldSpecs& fields() const override { return fields_; }
  void get(std::int64_t k, const Fields& sample) const override;
  std::vector<std::string> lines(std::int64_t k, const Tokenizer& tokenizer) const override;
  void write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const override;
  Indexes indexes() const override { return samples_->indexes(); }

 private:
  // Chunks of the database, each neighbour's and those behind it: [chunks, neighbours, retrieved].
  std::vector<std::int64_t> retrieved(std::int64_t k) const;
  std::vector<std::int32_t> tokens_of(std::span<const std::int64_t> chunks) const;

  std::unique_ptr<Samples> samples_;
  Split which_;
  std::int64_t count_, chunks_;  // samples; chunks of each
  RetroSampleOptions options_;
  FieldSpecs fields_;
};

}  // namespace mt
