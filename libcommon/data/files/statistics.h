// Figures of token files: `mt-preprocess stats` and `checksum`.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/log.h"
#include "data/files/indexed_dataset.h"

namespace mt {

// Numbers of tokens, of documents or of sequences.
struct LengthStatistics {
  std::int64_t count = 0, empty = 0, tokens = 0;
  std::int64_t shortest = 0, longest = 0;
  std::array<std::int64_t, 64> buckets = {};  // [b]: lengths of b bits, from 2^(b-1) to 2^b - 1
  void add(std::int64_t length);
  double mean() const {
    return count == 0 ? 0 : static_cast<double>(tokens) / static_cast<double>(count);
  }
};

struct DatasetStatistics {
  LengthStatistics documents, sequences;
};
DatasetStatistics dataset_statistics(const IndexedDataset& data);

// What `stats` prints, with a histogram of the documents' lengths; as JSON of schema mt-stats/1.
std::string statistics_text(const IndexedDataset& data);
std::string statistics_json(const IndexedDataset& data);

// A sum that does not depend on the order of documents: of all documents' XXH3-128, each over its
// sequences as (length i32, tokens i32 ...), modulo 2^128.  Sums of datasets add up to that of the
// merged one, whatever their element types.
struct Checksum {
  std::uint64_t high = 0, low = 0;
  Checksum& operator+=(const Checksum& other);
  std::string hex() const;
};
Checksum documents_checksum(const IndexedDataset& data, const Log& log = {});

}  // namespace mt
