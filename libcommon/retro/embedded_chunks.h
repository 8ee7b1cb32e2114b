// EmbeddedChunks: the chunks of one of a project's merged databases by what a BERT makes of them.
#pragma once

#include <string>
#include <vector>

#include "base/threads.h"
#include "retro/chunk_embedder.h"
#include "retro/chunk_reader.h"

namespace mt {

class EmbeddedChunks {
 public:
  EmbeddedChunks(const RetroProject& project, const std::string& database,
                 const ChunkEmbedderOptions& options);

  std::int64_t size() const { return chunks_.size(); }
  std::int64_t columns() const { return embedder_.columns(); }
  const std::string& identity() const { return identity_; }  // of all that they depend on
  const std::string& embedder_identity() const { return embedder_.identity(); }
  // The identity of a database's chunks by what an embedder of this identity makes of them.
  static std::string identity_of(const RetroProject& project, const std::string& database,
                                 const std::string& embedder);
  std::vector<float> embed(ItemRange chunks);  // [chunks, columns]

 private:
  ChunkReader chunks_;
  ChunkEmbedder embedder_;
  Workers workers_;
  std::string identity_;
};

}  // namespace mt
