// Token files: Megatron-LM's pair PREFIX.bin (token ids, back to back) and PREFIX.idx.
//
//   .idx, little-endian, nothing aligned:
//     0   9 bytes  "MMIDIDX\0\0"          9   u64  version 1          17  u8  element type, 1..8
//     18  u64      S sequences            26  u64  D = documents + 1
//     34  i32[S]   tokens of each sequence
//     ..  i64[S]   byte offset of each sequence in .bin: the running sum of the lengths
//     ..  i64[D]   first sequence of each document, then S; equal neighbours: an empty document
//     ..  i8[S]    only in multimodal files (the header does not say so): 0 text, 1 image
//
// Format: Megatron-LM core_v0.12.1, megatron/core/datasets/indexed_dataset.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/file.h"
#include "data/files/item_range.h"
#include "data/files/token_type.h"
#include "data/samples/token_sequences.h"

namespace mt {

class KnownFiles;

std::string bin_path(const std::string& prefix);
std::string idx_path(const std::string& prefix);

// Exit::no_input, with the nearest prefix that is there, where one of the two files is not.
void require_token_files(const std::string& prefix);

// A pair opened for reading.  Opening checks all that the index says against itself and against the
// size of .bin, and throws Exit::bad_data naming the file and the byte; .bin itself is not read.
// What `known` knows of .idx is not checked again.  Thread-safe.
class IndexedDataset final : public TokenSequences {
 public:
  explicit IndexedDataset(const std::string& prefix);
  IndexedDataset(const std::string& prefix, const KnownFiles& known);

  // Over bytes in memory, which must outlive the object; `name` stands for the prefix in errors.
  static IndexedDataset from_bytes(Bytes idx, Bytes bin, const std::string& name);

  const std::string& name() const override { return prefix_; }
  std::int64_t sequences() const override { return sequences_; }
  std::int64_t documents() const { return documents_; }
  std::int64_t tokens() const { return static_cast<std::int64_t>(bin_.size() / token_bytes_); }
  TokenType type() const { return type_; }
  bool multimodal() const { return modes_ != nullptr; }
  const std::string& prefix() const { return prefix_; }

  std::int64_t length(std::int64_t sequence) const override;  // in tokens
  std::int64_t tokens(ItemRange sequences) const override;
  std::string lengths_hash() const override;  // of .idx
  std::int64_t document_of(std::int64_t sequence) const override;
  std::int64_t mode(std::int64_t sequence) const;  // 0 where there are no modes
  // Sequences [document_begin(d), document_begin(d + 1)) make document d; d <= documents().
  std::int64_t document_begin(std::int64_t document) const;

  // Raw elements of one sequence, or of a run of them, of type().
  Bytes sequence(std::int64_t sequence) const { return bytes({sequence, sequence + 1}); }
  Bytes bytes(ItemRange sequences) const;

  // Tokens [offset, offset + out.size()) of one sequence; the caller stays inside length().  Throws
  // Exit::bad_data for elements that are not integers or do not fit.
  void read(std::int64_t sequence, std::int64_t offset, std::span<std::int32_t> out) const;
  void read(std::int64_t sequence, std::int64_t offset, std::span<std::int64_t> out) const override;

  Bytes idx_bytes() const { return idx_; }
  Bytes bin_bytes() const { return bin_; }

 private:
  IndexedDataset(const std::string& prefix, Bytes idx, Bytes bin);
  void read_header();
  void check() const;
  void check_sequences(ItemRange sequences) const;
  void check_documents(ItemRange documents) const;
  void check_size() const;
  void forget(const std::byte* begin, const std::byte* end) const;
  std::int64_t end_of(std::int64_t sequence) const;  // byte of .bin
  std::int64_t pointer(std::int64_t sequence) const;
  template <class Out>
  void read_as(std::int64_t sequence, std::int64_t offset, std::span<Out> out) const;

  std::string prefix_, idx_hash_;                    // "": not computed
  std::unique_ptr<MappedFile> idx_file_, bin_file_;  // null when over bytes in memory
  Bytes idx_, bin_;
  TokenType type_ = TokenType::i32;
  std::size_t token_bytes_ = 4;
  std::int64_t sequences_ = 0, documents_ = 0;
  const std::byte *lengths_ = nullptr, *pointers_ = nullptr, *begins_ = nullptr, *modes_ = nullptr;
};

}  // namespace mt
