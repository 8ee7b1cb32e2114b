// ChunkReader: the chunks of one of a project's merged databases (chunk_db.h), and their tokens.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/run_context.h"
#include "data/files/indexed_dataset.h"
#include "data/files/item_range.h"
#include "data/files/tokenizer_source.h"
#include "retro/project.h"
#include "search/hdf5_file.h"

namespace mt {

struct RetroChunk {
  std::int64_t dataset = 0, document = 0;
  ItemRange tokens;              // of the document
  std::int64_t bert_length = 0;  // tokens that a BERT has of its text
};

// Not thread-safe but for text() and tokens().
class ChunkReader {
 public:
  // `name`: sampled, train or valid.
  ChunkReader(const RetroProject& project, const std::string& name);

  std::int64_t size() const { return size_; }
  // Exit::bad_data for a chunk that the token files have not.
  std::vector<RetroChunk> read(ItemRange chunks) const;
  const Tokenizer& tokenizer() const { return *gpt_.tokenizer; }  // of the token files
  const std::string& prefix(const RetroChunk& chunk) const;       // of its token file, in data
  std::string text(const RetroChunk& chunk) const;
  // Its tokens, and behind them as many ends of document as there is room for.
  void tokens(const RetroChunk& chunk, std::span<std::int32_t> padded) const;

 private:
  std::string path_;
  std::vector<std::string> prefixes_;
  std::vector<IndexedDataset> datasets_;
  LoadedTokenizer gpt_;
  Hdf5Reader file_;
  std::int64_t size_ = 0;
};

struct ShowChunksOptions {
  std::string project, name = "train";
  std::optional<std::int64_t> head;
  void add_to(CommandLine& cl);
};

// `mt-retro-index cat`: a line of JSON for each chunk.
void show_chunks(const ShowChunksOptions& options, const RunContext& context, std::ostream& out);

}  // namespace mt
