// GptDataset: samples of seq_length tokens with their labels, cut from a token file in
// Megatron-LM's order (gpt_index.h; core_v0.12.1, megatron/core/datasets/gpt_dataset.py).
//   text[S + 1] = the sample's tokens, padded at the end
//   tokens = text[0, S)      labels = text[1, S]
//   loss_mask = 1, but 0 where the label is padding, and, with eod_mask_loss, where the token is
//               EOD
//   positions = 0, 1, 2, …; with reset_position_ids they start again after each EOD
//   first_key = 0; with reset_attention_mask the place after the last EOD before the token, so that
//               no token attends to an earlier document
// Padding is written as token 0.  Thread-safe; the data must outlive it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/samples/gpt_index.h"
#include "data/samples/samples.h"
#include "data/samples/token_sequences.h"
#include "tensor/fields.h"

namespace mt {

struct GptDatasetOptions {
  GptIndexOptions index = {};
  std::int64_t pad_id = -1;     // the tokenizer's; -1: it has none
  std::int64_t eod_id = -1;     // the tokenizer's; needed by the three below
  std::int64_t vocab_size = 0;  // tokens from here on are Exit::bad_data; 0: not checked
  bool reset_position_ids = false, reset_attention_mask = false, eod_mask_loss = false;
};

// Where a sample goes; each span has seq_length elements.
struct GptSample {
  std::span<std::int32_t> tokens, labels, positions;
  std::span<std::int32_t> first_key;  // empty unless reset_attention_mask
  std::span<float> loss_mask;

  static GptSample of(const Fields& fields);
};

// What its samples bring; first keys only where attention stays within documents.
FieldSpecs gpt_fields(std::int64_t seq_length, bool first_keys);

class GptDataset final : public Samples {
 public:
  GptDataset(const TokenSequences& data, const GptDatasetOptions& options,
             const IndexCache& cache = {});

  const std::string& name() const override { return data_.name(); }
  std::int64_t size() const override { return index_.size(); }
  std::int64_t seq_length() const { return options_.index.seq_length; }
  const FieldSpecs& fields() const override { return fields_; }
  // In drawing order.
  void get(std::int64_t k, const Fields& sample) const override { get(k, GptSample::of(sample)); }
  void get(std::int64_t k, const GptSample& sample) const;

  // The parts of the token file that a sample is made of, in order: [begin, end) tokens of a
  // sequence.
  struct Part {
    std::int64_t sequence = 0, begin = 0, end = 0;
    bool operator==(const Part&) const = default;
  };
  std::vector<Part> parts(std::int64_t k) const;

  std::vector<std::string> lines(std::int64_t k, const Tokenizer& tokenizer) const override;
  void write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const override;
  Indexes indexes() const override {
    return {.files = 1, .made = index_.made(), .found = !index_.made()};
  }

  const GptIndex& index() const { return index_; }

 private:
  std::string text_of(const Part& part, const Tokenizer& tokenizer) const;
  std::vector<std::int64_t> text(std::int64_t k) const;  // [seq_length + 1]
  void check_tokens(std::span<const std::int64_t> text, const Part& part) const;

  const TokenSequences& data_;
  GptDatasetOptions options_;
  FieldSpecs fields_;
  GptIndex index_;
};

}  // namespace mt
