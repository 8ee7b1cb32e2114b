#include "retro/embedded_chunks.h"

#include "base/hash.h"

namespace mt {

EmbeddedChunks::EmbeddedChunks(const RetroProject& project, const std::string& database,
                               const ChunkEmbedderOptions& options)
    : chunks_(project, database),
      embedder_(options, project.bert_tokenizer()),
      workers_(options.threads),
      identity_(identity_of(project, database, embedder_.identity())) {}

std::string EmbeddedChunks::identity_of(const RetroProject& project, const std::string& database,
                                        const std::string& embedder) {
  return concat(hash_file(project.db() + "/merged/" + database + ".hdf5"), " ", embedder);
}

std::vector<float> EmbeddedChunks::embed(ItemRange chunks) {
  const std::vector<RetroChunk> some = chunks_.read(chunks);
  std::vector<std::string> texts(some.size());
  workers_.run([&] {
    parallel_for_ordered_errors(std::ssize(texts), [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      texts[at] = chunks_.text(some[at]);
    });
  });
  return embedder_.embed(texts);
}

}  // namespace mt
