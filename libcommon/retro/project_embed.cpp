// The embeddings of a project's chunks, for whoever wants them (project_stages.h).
#include <algorithm>
#include <ostream>

#include "base/error.h"
#include "base/npy.h"
#include "retro/embedded_chunks.h"
#include "retro/project_stages.h"

namespace mt {
namespace {

constexpr std::int64_t kAtATime = 4096;  // chunks

// Calls use(rows) for the embeddings of all chunks, some at a time.
template <class Use>
void for_embeddings(EmbeddedChunks& chunks, const RunContext& context, Progress& progress,
                    const Use& use) {
  for (std::int64_t begin = 0; begin < chunks.size(); begin += kAtATime) {
    context.checkpoint();
    const ItemRange some = {begin, std::min(begin + kAtATime, chunks.size())};
    use(chunks.embed(some));
    progress.add(static_cast<std::uint64_t>(some.size()));
  }
}

void print(std::span<const float> rows, std::int64_t columns, std::int64_t& chunk,
           std::ostream& out) {
  for (auto row = rows.begin(); row != rows.end(); row += columns) {
    JsonWriter json;
    json.begin_object().member("chunk", chunk++).key("embedding").begin_array();
    for (auto x = row; x != row + columns; ++x) json.value(*x);
    json.end_array().end_object();
    out << json.text() << '\n';
  }
}

}  // namespace

StageSummary embed_project(const ProjectEmbedOptions& options, const RunContext& context,
                           std::ostream& out) {
  const RetroProject project(options.project);
  std::optional<AtomicFile> matrix;  // which is refused before the model is loaded
  if (options.output.ends_with(".npy")) matrix.emplace(options.output, options.force);
  EmbeddedChunks chunks(project, options.database, options.embedder);
  Progress progress(context.log, "embedding", "chunks", static_cast<std::uint64_t>(chunks.size()));
  StageSummary summary;
  if (options.output == "-") {
    std::int64_t chunk = 0;
    for_embeddings(chunks, context, progress, [&](const std::vector<float>& rows) {
      print(rows, chunks.columns(), chunk, out);
    });
  } else if (matrix) {
    matrix->write(npy_header(chunks.size(), chunks.columns()));
    for_embeddings(chunks, context, progress, [&](const std::vector<float>& rows) {
      matrix->write(std::as_bytes(std::span(rows)));
    });
    matrix->commit();
    summary.files.made = 1;
  } else {
    StageFiles files(options.output, options.force, options.share);
    StageBlocks<float> blocks(files, {.folder = "",
                                      .array = "data",
                                      .items = chunks.size(),
                                      .block_size = options.block_size.value_or(kChunksInFile),
                                      .columns = chunks.columns(),
                                      .made_of = "mt-embeddings/1 " + chunks.identity()});
    blocks.refuse_others();
    blocks.make(options.share, context, progress, summary.files,
                [&](ItemRange items) { return chunks.embed(items); });
    summary.complete = summary.files.left == 0;
  }
  progress.finish();
  return summary;
}

}  // namespace mt
