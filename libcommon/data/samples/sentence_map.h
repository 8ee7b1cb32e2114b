// Which sentences of a file of sentences make the samples of BERT and T5, and the blocks of ICT:
// Megatron-LM's build_mapping and build_blocks_mapping, row for row (core_v0.12.1,
// megatron/core/datasets/helpers.cpp).
//
//   SentenceMap: runs of neighbouring sentences of a document, ended where they have the target
//     length (or with the document).  One target in round(1 / short_seq_prob) is drawn shorter,
//     from 2 tokens on.  Whole epochs, until there are enough.
//   BlockMap: the same without short ones; a block leaves room for its document's title, and has a
//     number in its epoch.
// Documents with a sentence of more than 512 tokens are left out.  Rows are shuffled over all
// epochs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "data/files/indexed_dataset.h"
#include "data/samples/index_cache.h"
#include "data/samples/samples.h"

namespace mt {

// Rows of numbers of 32 bits, or of 64 where the file has more than 2^32 - 1 sentences.
class MapRows {
 public:
  MapRows() = default;
  MapRows(IndexArrays arrays, std::size_t columns, bool wide);
  std::int64_t size() const { return size_; }
  std::int64_t at(std::int64_t row, std::size_t column) const;
  bool made() const { return arrays_.made(); }
  using Array = std::variant<std::span<const std::uint32_t>, std::span<const std::uint64_t>>;
  const Array& array() const { return array_; }

 private:
  IndexArrays arrays_;
  Array array_;
  std::size_t columns_ = 1;
  std::int64_t size_ = 0;
};

// The tokens of sentences, one after another.  Throws Exit::bad_data for one outside [0,
// vocab_size).
std::vector<std::int32_t> read_sentences(const IndexedDataset& data, ItemRange sentences,
                                         std::int64_t vocab_size);

struct SentenceMapOptions {
  ItemRange documents = {};     // of the file
  std::int64_t max_length = 0;  // of a sample, in tokens, at least 2
  std::int64_t min_sentences = 1;
  double short_seq_prob = 0.1;  // 0 to 1
  std::uint32_t seed = 1234;
  std::optional<std::int64_t> num_samples = {};  // at least so many; absent: one epoch
};

class SentenceMap {
 public:
  // Throws Exit::bad_data where no document gives a sample.
  SentenceMap(const IndexedDataset& data, const SentenceMapOptions& options,
              const IndexCache& cache = {});

  // Bytes of the arrays that a map of so many rows has, unless its file is very large.
  static std::int64_t bytes(std::int64_t rows) { return rows * 3 * 4; }

  std::int64_t size() const { return rows_.size(); }
  ItemRange sentences(std::int64_t k) const { return {rows_.at(k, 0), rows_.at(k, 1)}; }
  std::int64_t target_length(std::int64_t k) const { return rows_.at(k, 2); }
  const MapRows& rows() const { return rows_; }
  Samples::Indexes indexes() const {
    return {.files = 1, .made = rows_.made(), .found = !rows_.made()};
  }

 private:
  MapRows rows_;
};

struct BlockMapOptions {
  ItemRange documents = {};
  std::int64_t max_length = 0;  // of a block and its title, in tokens
  bool one_sentence = false;    // blocks may have one sentence, else two or more
  std::uint32_t seed = 1234;
  std::optional<std::int64_t> num_samples = {};
};

class BlockMap {
 public:
  // `titles`: a sequence for each document of the file.  Upstream takes the titles of a split that
  // does not begin with the first document from the wrong documents; here they are the right ones.
  BlockMap(const IndexedDataset& data, const IndexedDataset& titles, const BlockMapOptions& options,
           const IndexCache& cache = {});

  // Bytes of the array that a map of so many rows has, unless its file is very large.
  static std::int64_t bytes(std::int64_t rows) { return rows * 4 * 4; }

  std::int64_t size() const { return rows_.size(); }
  ItemRange sentences(std::int64_t k) const { return {rows_.at(k, 0), rows_.at(k, 1)}; }
  std::int64_t document(std::int64_t k) const { return rows_.at(k, 2); }  // of `documents`, from 0
  std::int64_t block(std::int64_t k) const { return rows_.at(k, 3); }
  const MapRows& rows() const { return rows_; }

 private:
  MapRows rows_;
};

}  // namespace mt
