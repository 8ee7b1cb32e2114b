// Writing a token file (format: indexed_dataset.h).  Tokens and index stream to the disk, the parts
// of the index as files of their own that finish() puts together, so memory does not grow with the
// dataset.  PREFIX.bin, PREFIX.manifest.json and PREFIX.idx appear only at commit(), the index
// last, so whoever finds an index finds all; before that they are temporary files, removed with the
// writer.  Those of a resumable writer stay, as *.part, and the next one can go on from a state
// that was saved.  Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "data/corpus/spill.h"
#include "data/files/indexed_dataset.h"
#include "data/files/item_range.h"
#include "data/files/stored_tokens.h"
#include "data/files/token_type.h"

namespace mt {

struct Manifest;

class IndexedDatasetWriter {
 public:
  struct Options {
    bool overwrite = false;
    bool multimodal = false;  // sequences have modes
    bool resumable = false;
  };
  // How far a resumable writer is.
  struct State {
    std::int64_t sequences = 0, documents = 0, tokens = 0;
    bool operator==(const State&) const = default;
  };

  // Throws Exit::cannot_create where one of the files exists and is not to be overwritten.
  IndexedDatasetWriter(const std::string& prefix, TokenType type, const Options& options);

  // One document: `tokens` holds its sequences, of the given lengths, back to back.  No lengths: an
  // empty document.  `modes`, of multimodal files: one a sequence.  Throws Exit::bad_data for a
  // token that the type cannot hold.
  void add_document(std::span<const std::int32_t> tokens, std::span<const std::int32_t> lengths,
                    std::span<const std::int8_t> modes = {});

  // Some documents at a time: `tokens` holds those of all sequences as the file has them
  // (stored_tokens.h), `lengths` the sequences' lengths, `documents` how many each document has.
  void add_documents(Bytes tokens, std::span<const std::int32_t> lengths,
                     std::span<const std::size_t> documents);

  // Documents of another file of the same type, with modes or without as this one unless it has no
  // sequences.
  void add_documents(const IndexedDataset& other, ItemRange documents);

  // All that was added is on the disk, for resume().
  void save();
  // Goes on after `state`, which an earlier writer had saved; reads .bin for its hash.  Throws
  // Exit::bad_data where the parts hold less.
  void resume(const State& state);

  // Completes the temporary files; nothing can be added after it.
  void finish();

  // Takes a finished dataset to the disk, and keeps neither a file open nor a buffer until
  // commit().
  void set_aside();

  // Gives the files their names; on an error none is left.  The counts, hashes and type in
  // `manifest` are filled in.
  void commit(Manifest manifest);

  TokenType type() const { return type_; }
  const State& state() const { return state_; }

 private:
  void end_document();
  void add_bytes(Bytes bytes);
  void write_bin(Bytes bytes);
  void reserve_bin();
  void flush_bin();
  void write_idx(Bytes bytes);
  void write_header();
  void discard_spills();

  std::string prefix_;
  TokenType type_;
  Options options_;
  AtomicFile bin_, idx_;
  Spill lengths_, begins_, modes_;  // of the index: i32, i64, i8; begins_ without the first 0
  Hasher bin_hash_, idx_hash_;
  std::vector<std::byte> buffer_;  // of .bin, not yet written
  StoredTokens stored_;            // tokens on their way there
  std::uint64_t bin_bytes_ = 0;    // in the file
  std::uint64_t reserved_ = 0;     // for which the file has room
  std::size_t dirty_ = 0;          // bytes of .bin that may not be on their way to the disk
  State state_;
};

// Where an earlier run of resumable writers was ended amid commit(): its files get their temporary
// names back.
void undo_dataset_commit(const std::string& prefix);
// What a resumable writer leaves beside a dataset that is complete.
void remove_parts(const std::string& prefix);

}  // namespace mt
