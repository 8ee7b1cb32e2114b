// T5Dataset: text with spans cut out, and the spans, as T5 is trained on (Megatron-LM core_v0.12.1,
// megatron/core/datasets/t5_dataset.py, draw for draw).  A sample is a function of seed and number.
// With the spans' sentinels s0, s1, ... (<extra_id_0> and so on):
//   encoder       the text, each span replaced by its sentinel; padding
//   decoder       [BOS] s0 span0 s1 span1 ...; padding
//   labels        s0 span0 s1 span1 ... [EOS]; -1
//   loss_mask     1 where the decoder has no padding, else 0
//   encoder_mask, decoder_mask   1, but 0 for padding
#pragma once

#include <cstdint>
#include <span>

#include "data/samples/masking.h"
#include "data/samples/sentence_map.h"

namespace mt {

struct T5DatasetOptions {
  ItemRange documents = {};
  std::int64_t seq_length = 0, decoder_seq_length = 0;
  std::uint32_t seed = 1234;
  std::optional<std::int64_t> num_samples = {};  // at least so many; absent: one epoch
  double mask_prob = 0.15, short_seq_prob = 0.1;
};

// Where a sample goes: seq_length elements for the encoder, decoder_seq_length for the decoder.
struct T5Sample {
  std::span<std::int32_t> encoder, decoder, labels, loss_mask, encoder_mask, decoder_mask;
};

class T5Dataset {
 public:
  // `data`: a file of sentences; it and `pieces` must outlive the dataset.  Throws Exit::bad_config
  // where the tokenizer has no sentinels.
  T5Dataset(const IndexedDataset& data, const WordPieces& pieces, const T5DatasetOptions& options,
            const IndexCache& cache = {});

  std::int64_t size() const { return map_.size(); }
  std::int64_t seq_length() const { return options_.seq_length; }
  std::int64_t decoder_seq_length() const { return options_.decoder_seq_length; }

  struct Facts {
    bool truncated = false;
  };
  // 0 <= k < size().  Throws Exit::bad_config where sentinels or decoder_seq_length do not suffice.
  Facts get(std::int64_t k, const T5Sample& sample) const;

  const SentenceMap& map() const { return map_; }
  const IndexedDataset& data() const { return data_; }

 private:
  const IndexedDataset& data_;
  const WordPieces& pieces_;
  T5DatasetOptions options_;
  SentenceMap map_;
  Masking masking_;
};

}  // namespace mt
