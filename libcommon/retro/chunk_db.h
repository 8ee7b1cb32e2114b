// `mt-retro-index build-db`: cuts the documents of token files into chunks, from which neighbours
// are retrieved, as `db-build` of Megatron-LM core_v0.12.1 does (tools/retro/preprocess_data.py).
// In the project's folder:
//   db/individual/PREFIX/A-B.hdf5    chunks of documents A to B - 1: `chunks_valid`, and
//                                    `chunks_invalid`, of whose text a BERT has no tokens, u32
//                                    [n, 4]: document, first token, last token + 1, tokens that
//                                    a BERT has of the text;
//                                    `doc_offsets`, u64 [B - A, 2]: document, valid chunks up to
//                                    and with it in this file
//   db/merged/sampled.hdf5           what an index is trained on: `chunks`, u32 [n, 5]: as above,
//                                    behind the dataset's number; `n_written`, u64 [1]: n
//   db/merged/train.hdf5             what is retrieved from; also `doc_offsets`, u64 [n, 3], of n
//                                    documents: dataset, document, chunks up to and with it in all
//   db/merged/valid.hdf5             the valid chunks that train.hdf5 has not
//   db/indexed_dataset_infos.json    ChunkDbSummary::Dataset of each
//   db/manifest.jsonl                which files are made (stage_files.h)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/run_context.h"
#include "retro/run_settings.h"
#include "text/tokenizer.h"

namespace mt {

struct ChunkDbOptions {
  std::string project;
  std::vector<std::string> data_path;
  std::string split;
  std::int64_t chunk_length = 64, document_block = 100000, index_samples = 0;
  TokenizerOptions gpt, bert;
  RetroRunSettings run = {};  // which config.json keeps for the steps that follow
  std::optional<std::int64_t> chunk_block = {};
  bool force = false;
  int threads = 0;
  void add_to(CommandLine& cl);
  void add_content_to(CommandLine& cl);  // which chunks there are, of what
  static constexpr const char* kRequired[] = {"--retro-gpt-data-path", "--retro-gpt-split",
                                              "--retro-bert-tokenizer-type",
                                              "--retro-bert-vocab-file", "--retro-index-ntrain"};
  // Of config.json: what is said, and the tokenizer that made the token files.
  RetroProject::Settings settings(const TokenizerOptions& gpt_tokenizer) const;
};

struct ChunkDbSummary {
  struct Dataset {
    double ratio = 1;
    std::string prefix;
    std::int64_t documents = 0, train_documents = 0;
    // These count valid chunks, those of them whose documents are for training, invalid ones, and
    // those that an index is trained on.
    std::int64_t chunks = 0, train = 0, invalid = 0, sampled = 0;
    void write(JsonWriter& json) const;
  };
  std::vector<Dataset> datasets;
  std::int64_t made = 0, found = 0;  // files

  void write(JsonWriter& json) const;  // schema mt-chunk-db/1
};

// Makes the database.  What was made before and is undamaged stays.  The result does not depend on
// the number of threads.
ChunkDbSummary build_chunk_db(const ChunkDbOptions& options, const RunContext& context);

}  // namespace mt
