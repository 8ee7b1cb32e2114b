// The order in which a GPT dataset reads its documents: Megatron-LM's document, sample and shuffle
// index, bit for bit (core_v0.12.1: megatron/core/datasets/gpt_dataset.py and helpers.cpp).
// "Document" here is one sequence of the token file.
//
//   document_index: the sequences of the split, once per epoch, shuffled; laid end to end they are
//                   one long text
//   sample_index:   sample k runs from its row k to its row k + 1: (position in document_index,
//                   token offset there); with an extra token neighbours share one token
//   shuffle_index:  the k-th sample to be drawn
//
// With a cache the arrays are files mapped into memory; without one they are made in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "data/files/item_range.h"
#include "data/samples/index_cache.h"

namespace mt {

class TokenSequences;

struct GptIndexOptions {
  ItemRange sequences = {};     // the split's part of the token file
  std::int64_t seq_length = 0;  // S, at least 1
  std::uint32_t seed = 1234;
  std::optional<std::int64_t> num_samples = {};  // absent: one epoch
  bool drop_last_partial = true;                 // false only for a validation split that keeps it
  bool extra_token = true;  // a sample has S + 1 tokens, so that labels are shifted tokens
};

struct SamplePlace {
  std::int64_t position = 0, offset = 0;
  bool operator==(const SamplePlace&) const = default;
};

class GptIndex {
 public:
  // Throws Exit::bad_data when the split holds no tokens, Exit::usage for impossible options.
  GptIndex(const TokenSequences& data, const GptIndexOptions& options,
           const IndexCache& cache = {});

  // Bytes of the arrays that such an index would have.
  static std::int64_t bytes(const TokenSequences& data, const GptIndexOptions& options);
  bool made() const { return arrays_.made(); }  // by this process, not mapped from an older file

  std::int64_t size() const { return samples_; }
  std::int64_t epochs() const { return epochs_; }
  bool separate_last_epoch() const { return separate_last_epoch_; }

  std::int64_t document(std::int64_t position) const {
    return document_index_[static_cast<std::size_t>(position)];
  }
  SamplePlace sample(std::int64_t row) const;       // row <= size()
  std::int64_t shuffled(std::int64_t drawn) const;  // the sample drawn at place `drawn`

  std::span<const std::int32_t> document_index() const { return document_index_; }

 private:
  // The arrays as upstream stores them: rows of two, i64 only where i32 is too small; u32 below
  // 2^32 - 2 samples.
  using SampleArray = std::variant<std::span<const std::int32_t>, std::span<const std::int64_t>>;
  using ShuffleArray = std::variant<std::span<const std::uint32_t>, std::span<const std::int64_t>>;

  std::int64_t samples_ = 0, epochs_ = 1;
  bool separate_last_epoch_ = false;
  IndexArrays arrays_;
  std::span<const std::int32_t> document_index_;
  SampleArray sample_index_;
  ShuffleArray shuffle_index_;
};

}  // namespace mt
