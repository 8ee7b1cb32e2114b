// `mt-retro-index build-db`: cuts the documents of token files into chunks, from which neighbours
// are retrieved, as `db-build` of Megatron-LM core_v0.12.1 does (tools/retro/preprocess_data.py).
// In the project's folder:
//   db/individual/PREFIX/A-B.hdf5    of documents A to B - 1: `chunks_valid` and `chunks_invalid`,
//   u32
//                                    [n, 4]: document, first token, last token + 1, tokens that a
//                                    BERT has of its text, which are none of an invalid one;
//                                    `doc_offsets`, u64 [B - A, 2]: document, valid chunks up to
//                                    and with it in this file
//   db/merged/sampled.hdf5           what an index is trained on: `chunks`, u32 [n, 5]: as above,
//                                    behind the dataset's number; `n_written`, u64 [1]: n
//   db/merged/train.hdf5             what is retrieved from; also `doc_offsets`, u64 [documents,
//   3]:
//                                    dataset, document, chunks up to and with it in all
//   db/merged/valid.hdf5             the others
//   db/indexed_dataset_infos.json    ChunkDbSummary::Dataset of each
//   db/manifest.jsonl                which files are made (stage_files.h)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/run_context.h"
#include "text/tokenizer.h"

namespace mt {

struct ChunkDbOptions {
  std::string project;
  std::vector<std::string> data_path;
  std::string split;
  std::int64_t chunk_length = 64, document_block = 100000, index_samples = 0;
  TokenizerOptions gpt, bert;
  // Of the training, and of the steps that follow, for which config.json keeps them.
  std::optional<std::int64_t> seed = {}, seq_length = {}, global_batch_size = {},
                              eval_interval = {}, eval_iters = {}, train_samples = {},
                              chunk_block = {};
  std::string cache_path = {};
  bool force = false;
  int threads = 0;
  void add_to(CommandLine& cl);
};

struct ChunkDbSummary {
  struct Dataset {
    double ratio = 1;
    std::string prefix;
    std::int64_t documents = 0, train_documents = 0;
    // Chunks: valid ones; of the documents for training; invalid ones; those that an index is
    // trained on.
    std::int64_t chunks = 0, train = 0, invalid = 0, sampled = 0;
    void write(JsonWriter& json) const;
  };
  std::vector<Dataset> datasets;
  std::int64_t made = 0, found = 0;  // files

  void write(JsonWriter& json) const;  // schema mt-chunk-db/1
};

// What was made before and is undamaged stays.  The result does not depend on the number of
// threads.
ChunkDbSummary build_chunk_db(const ChunkDbOptions& options, const RunContext& context);

}  // namespace mt
