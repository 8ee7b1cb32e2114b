// The stages of a Retro project behind build-db, with Megatron-LM core_v0.12.1's layout and names
// (tools/retro/preprocess_data.py, megatron/core/datasets/retro):
//   index/train_emb/blocks/A-B.hdf5        `data`, f32 [B - A, columns]: embeddings of chunks A to
//                                          B - 1 of db/merged/sampled.hdf5; gone when the index is
//                                          trained
//   index/TYPE/STRING/empty_F.faissindex   the index, trained on the first F of each block
//   index/TYPE/STRING/add_codes/A-B.hdf5   `data`, u8 [B - A, bytes]: codes of chunks of
//                                          db/merged/train.hdf5; gone when they are added
//   index/TYPE/STRING/added_F_G.faissindex the index with the first G of each block of codes
//   query/SPLIT_HASH/A-B.hdf5              `neighbors`, i64 [B - A, kept] (neighbors.h)
// and a list of what is made in each of index and query (stage_files.h).  A process that makes a
// share of the blocks leaves what is made of all of them to one that makes the rest.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/run_context.h"
#include "retro/chunk_embedder.h"
#include "retro/run_settings.h"
#include "retro/stage_blocks.h"
#include "search/vector_index.h"

namespace mt {

class CommandLine;

constexpr std::int64_t kChunksInFile = 100000;  // unless they say otherwise

struct ProjectIndexOptions {
  std::string project, string, type = "faiss-par-add", share_text = "0/1";
  double train_fraction = 1, add_fraction = 1;
  bool delete_embeddings = true, delete_codes = true, force = false;
  std::optional<std::int64_t> block_size = {};
  ChunkEmbedderOptions embedder;
  int threads = 0;

  StageShare share = {};  // set by complete()

  enum class Stage { train, add, build, query, verify };
  void add_to(CommandLine& cl, Stage stage);
  void add_content_to(CommandLine& cl, Stage stage);  // what the index is made of and by
  void add_share_to(CommandLine& cl);
  void complete();             // after parsing
  std::string folder() const;  // of the index, in that of all
  // The chunks in a file; what was given is kept in config.json, or, if `keeps` is not set,
  // compared to what is there.
  std::int64_t blocks_of(const RetroProject& of, bool keeps = true) const;
  std::string empty_file() const, added_file() const;
};

struct ProjectQueryOptions {
  ProjectIndexOptions index;
  RetroRunSettings run = {};
  std::int64_t count = 200, kept = 20, lists = 65536, ef_search = 256;
  std::optional<double> fraction = {};  // of blocks, that verify compares
  void add_to(CommandLine& cl);
  void add_verify_to(CommandLine& cl);
  void add_search_to(CommandLine& cl);  // the run, and how neighbours are searched
  void complete();                      // after parsing
};

struct ProjectEmbedOptions {
  std::string project, database = "train", output, share_text = "0/1";
  std::optional<std::int64_t> block_size = {};
  bool force = false;
  ChunkEmbedderOptions embedder;
  int threads = 0;
  StageShare share = {};  // set by complete()
  void add_to(CommandLine& cl);
  void complete();
};

struct StageSummary {
  StageCounts files;
  bool complete = true;  // all of the stage is made
  void note_left(const Log& log) const;
  void write(JsonWriter& json) const;  // schema mt-retro-stage/1
};

// How what an index is made of begins in the lists of `index`: that of a trained one with its
// embedder's identity, that of one with codes with the identity of its chunks (embedded_chunks.h).
std::string trained_beginning(const std::string& embedder);
std::string added_beginning(const std::string& chunks);
// Exit::bad_config for an index, of this hash, that they list, but never so.  One that they do not
// list is another program's.
void check_index_content(const StageLists& lists, const std::string& file, const std::string& path,
                         const std::string& hash, const std::string& beginning);

// The index of a project's chunks that are retrieved from.
class ProjectIndex {
 public:
  // Exit::no_input where there is none.
  ProjectIndex(const RetroProject& project, const ProjectIndexOptions& options);

  const std::string& path() const { return path_; }
  VectorIndex& vectors() { return vectors_; }
  // Exit::bad_config where it is not of the project's chunks, or not by this embedder.
  void check(const RetroProject& project, const ProjectIndexOptions& options,
             const ChunkEmbedder& embedder);
  const std::string& identity() const { return identity_; }  // once it is checked

 private:
  std::string path_;
  VectorIndex vectors_;
  std::string identity_;
};

StageSummary train_project_index(const ProjectIndexOptions& options, const RunContext& context);
StageSummary add_to_project_index(const ProjectIndexOptions& options, const RunContext& context);
StageSummary query_project(const ProjectQueryOptions& options, const RunContext& context);
// Embeddings of the chunks of a database, in their order: as HDF5 blocks, like those of train_emb,
// in a folder that lists them; as a matrix of NumPy's, FILE.npy; or, for -, as lines of JSON:
//   {"chunk":0,"embedding":[0.25,…]}
StageSummary embed_project(const ProjectEmbedOptions& options, const RunContext& context,
                           std::ostream& out);
// Makes some blocks of neighbours again, and compares: found counts them.  Writes nothing.
StageSummary verify_project(const ProjectQueryOptions& options, const RunContext& context);

}  // namespace mt
