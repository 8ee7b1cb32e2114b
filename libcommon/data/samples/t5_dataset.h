// T5Dataset: text with spans cut out, and the spans, as T5 is trained on (Megatron-LM core_v0.12.1,
// megatron/core/datasets/t5_dataset.py, draw for draw).  A sample is a function of seed and number.
// With the spans' sentinels s0, s1, ... (<extra_id_0> and so on):
//   encoder_ids   the text, each span replaced by its sentinel; padding; with lengths and positions
//   ids           [BOS] s0 span0 s1 span1 ...; padding; with positions
//   labels        s0 span0 s1 span1 ... [EOS]; 0          loss_mask  1, but 0 behind [EOS]
// Thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "data/samples/masking.h"
#include "data/samples/samples.h"
#include "data/samples/sentence_map.h"
#include "data/samples/shown_sample.h"

namespace mt {

struct T5DatasetOptions {
  ItemRange documents = {};
  std::int64_t seq_length = 0, decoder_seq_length = 0;
  std::uint32_t seed = 1234;
  std::optional<std::int64_t> num_samples = {};  // at least so many; absent: one epoch
  double mask_prob = 0.15, short_seq_prob = 0.1;
};

// A sample as Megatron-LM has it, seq_length elements for the encoder, decoder_seq_length for the
// decoder: labels are -1 behind [EOS], masks are 1 but 0 for padding.
struct T5Sample {
  std::span<std::int32_t> encoder, decoder, labels, loss_mask, encoder_mask, decoder_mask;
};

// What its samples bring.
FieldSpecs t5_fields(std::int64_t seq_length, std::int64_t decoder_seq_length);

class T5Dataset final : public Samples {
 public:
  // `data`: a file of sentences; it and `pieces` must outlive the dataset.
  T5Dataset(const IndexedDataset& data, const WordPieces& pieces, const T5DatasetOptions& options,
            const IndexCache& cache = {});

  const std::string& name() const override { return data_.name(); }
  std::int64_t size() const override { return map_.size(); }
  std::int64_t seq_length() const { return options_.seq_length; }
  std::int64_t decoder_seq_length() const { return options_.decoder_seq_length; }
  const FieldSpecs& fields() const override { return fields_; }
  // Throws Exit::bad_config where sentinels or decoder_seq_length do not suffice.
  void get(std::int64_t k, const Fields& sample) const override;
  std::vector<std::string> lines(std::int64_t k, const Tokenizer& tokenizer) const override {
    return show(k, tokenizer).lines();
  }
  void write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const override {
    show(k, tokenizer).write(json);
  }
  Indexes indexes() const override { return map_.indexes(); }

  struct Facts {
    bool truncated = false;
  };
  Facts get(std::int64_t k, const T5Sample& sample) const;

  const SentenceMap& map() const { return map_; }

 private:
  struct Made;
  Made make(std::int64_t k) const;
  ShownSample show(std::int64_t k, const Tokenizer& tokenizer) const;

  const IndexedDataset& data_;
  const WordPieces& pieces_;
  T5DatasetOptions options_;
  FieldSpecs fields_;
  SentenceMap map_;
  Masking masking_;
};

}  // namespace mt
