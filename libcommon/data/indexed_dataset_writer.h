// Writing a token file (format: indexed_dataset.h).  The tokens stream to the disk; the index, 12
// bytes a sequence and 8 a document, is kept until finish().  PREFIX.bin, PREFIX.manifest.json and
// PREFIX.idx appear only at commit(), the index last, so whoever finds an index finds all; before
// that they are temporary files, removed with the writer.  Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "data/indexed_dataset.h"
#include "data/manifest.h"
#include "data/token_type.h"

namespace mt {

class IndexedDatasetWriter {
 public:
  // Throws Exit::cannot_create where one of the files exists and `overwrite` is false.
  IndexedDatasetWriter(const std::string& prefix, TokenType type, bool overwrite);

  // One document: `tokens` holds its sequences, of the given lengths, back to back.  No lengths: an
  // empty document.  Throws Exit::bad_data for a token that the type cannot hold.
  void add_document(std::span<const std::int32_t> tokens, std::span<const std::int32_t> lengths);

  // All documents of another file of the same type and without modes.
  void add_dataset(const IndexedDataset& other);

  // Completes the temporary files; nothing can be added after it.
  void finish();

  // Gives the files their names; on an error none is left.  The counts, hashes and type in
  // `manifest` are filled in.
  void commit(Manifest manifest);

  TokenType type() const { return type_; }
  std::int64_t sequences() const { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t documents() const { return static_cast<std::int64_t>(begins_.size()) - 1; }
  std::int64_t tokens() const { return tokens_; }

 private:
  void append(std::span<const std::int32_t> tokens);
  void flush_bin();
  void write_idx(Bytes bytes);

  std::string prefix_;
  TokenType type_;
  bool overwrite_;
  AtomicFile bin_, idx_;
  Hasher bin_hash_, idx_hash_;
  std::vector<std::byte> buffer_;  // of .bin, not yet written
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> begins_ = {0};
  std::int64_t tokens_ = 0;
};

}  // namespace mt
