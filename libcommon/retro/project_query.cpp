// The stage of a project that finds its training's neighbours (project_stages.h).
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/hash.h"
#include "base/threads.h"
#include "retro/chunk_reader.h"
#include "retro/project_samples.h"
#include "retro/project_stages.h"
#include "search/placed_index.h"

namespace mt {
namespace {

constexpr std::int64_t kRowsAtATime = 1 << 16;

// Before samples are made by the settings: one that verifies writes none.
const RetroProject& with_settings(const RetroProject& project, const ProjectQueryOptions& options,
                                  bool verifies) {
  if (verifies)
    project.check_settings(options.run.settings());
  else
    project.add_settings(options.run.settings(), options.index.force);
  return project;
}

class QueryStage {
 public:
  QueryStage(const ProjectQueryOptions& options, const RunContext& context, bool verifies)
      : options_(options),
        context_(context),
        project_(options.index.project),
        block_size_(options.index.blocks_of(project_, !verifies)),
        index_(project_, options.index),
        samples_(with_settings(project_, options, verifies), options.index.threads, context.log,
                 context.checkpoint),
        embedder_(options.index.embedder, project_.bert_tokenizer()),
        products_(options.index.threads, context.checkpoint,
                  options.index.embedder.compute.device()),
        workers_(options.index.threads) {
    index_.check(project_, options.index, embedder_);
    read_documents();
    made_of_ = hash_of_all();
  }

  StageSummary run() {
    StageFiles files(project_.path("query"), options_.index.force, options_.index.share);
    JsonWriter dirs;
    dirs.begin_object();
    for (int i = 0; i < kSplits; ++i) {
      const auto which = static_cast<Split>(i);
      dirs.key(kRetroSplitKeys[i]);
      if (samples_.chunks(which) == 0) {
        dirs.null();
        continue;
      }
      dirs.value(folder(which));
      StageBlocks<std::int64_t> blocks(files, layout_of(which));
      blocks.refuse_others();
      Progress progress(context_.log, concat("finding neighbours of ", kSplitNames[i]), "chunks",
                        static_cast<std::uint64_t>(samples_.chunks(which)));
      blocks.make(options_.index.share, context_, progress, summary_.files,
                  [&](ItemRange chunks) { return neighbors(which, chunks); });
      progress.finish();
    }
    dirs.end_object();
    summary_.complete = summary_.files.left == 0;
    if (summary_.complete) project_.add_settings({{"retro_neighbor_dirs", dirs.text()}}, true);
    return summary_;
  }

  StageSummary verify() {
    const double fraction = options_.fraction.value_or(0);
    constexpr double kOne = 1e15;  // more than there are
    const auto every =
        static_cast<std::int64_t>(fraction > 0 ? std::min(1 / fraction, kOne) : kOne);
    for (int i = 0; i < kSplits; ++i) {
      const auto which = static_cast<Split>(i);
      if (samples_.chunks(which) == 0) continue;
      Progress progress(context_.log, concat("comparing neighbours of ", kSplitNames[i]), "chunks",
                        0);
      summary_.files.found += compare_blocks<std::int64_t>(
          project_.path("query"), layout_of(which), every, context_, progress,
          [&](ItemRange chunks) { return neighbors(which, chunks); });
      progress.finish();
    }
    if (summary_.files.found == 0)
      fail(Exit::no_input, project_.path("query"), ": has no neighbours that could be compared");
    return summary_;
  }

 private:
  // Notes the document of each chunk that is retrieved from.
  void read_documents() {
    const ChunkReader chunks(project_, "train");
    for (std::int64_t begin = 0; begin < chunks.size(); begin += kRowsAtATime)
      for (const RetroChunk& chunk :
           chunks.read({begin, std::min(begin + kRowsAtATime, chunks.size())}))
        documents_.emplace_back(static_cast<std::uint32_t>(chunk.dataset),
                                static_cast<std::uint32_t>(chunk.document));
    if (index_.vectors().size() > chunks.size())
      fail(Exit::bad_config, index_.path(), ": has ", index_.vectors().size(),
           " vectors, and the project ", chunks.size(), " chunks");
  }

  std::string hash_of_all() const {
    Hasher hasher;
    hasher.update(concat("mt-neighbors/1\n", index_.identity(), samples_.identity(), "\n",
                         options_.count, " ", options_.kept, " ", options_.lists, " ",
                         options_.ef_search, "\n"));
    return hasher.hex();
  }

  std::string folder(Split which) const {
    return concat(kRetroSplitKeys[static_cast<int>(which)], "_", samples_.identity());
  }

  StageLayout layout_of(Split which) const {
    return {.folder = folder(which),
            .array = "neighbors",
            .items = samples_.chunks(which),
            .block_size = block_size_,
            .columns = options_.kept,
            .made_of = made_of_};
  }

  // The neighbours of these chunks of a split's samples: [chunks, kept].
  std::vector<std::int64_t> neighbors(Split which, ItemRange chunks) {
    const std::int64_t each = samples_.chunks_of_sample();
    const std::int64_t first = chunks.begin / each, last = (chunks.end - 1) / each;
    std::vector<ProjectSamples::Sample> read(static_cast<std::size_t>(last - first + 1));
    workers_.run([&] {
      parallel_for_ordered_errors(std::ssize(read), [&](std::int64_t i) {
        read[static_cast<std::size_t>(i)] = samples_.read(which, first + i);
      });
    });
    const auto sample_of = [&](std::int64_t chunk) -> ProjectSamples::Sample& {
      return read[static_cast<std::size_t>(chunk / each - first)];
    };
    std::vector<std::string> texts;
    for (std::int64_t chunk = chunks.begin; chunk < chunks.end; ++chunk)
      texts.push_back(sample_of(chunk).texts[static_cast<std::size_t>(chunk % each)]);
    if (!searcher_) searcher_.emplace(index_.vectors(), products_);
    const FoundVectors found = searcher_->search(
        embedder_.embed(texts), {options_.count, options_.lists, options_.ef_search});
    std::vector<std::int64_t> rows;
    for (std::int64_t chunk = chunks.begin; chunk < chunks.end; ++chunk) {
      const auto& own = sample_of(chunk).documents;
      const std::size_t end = rows.size() + static_cast<std::size_t>(options_.kept);
      const auto at = found.ids.begin() + (chunk - chunks.begin) * options_.count;
      for (auto id = at; id != at + options_.count && rows.size() < end && *id >= 0; ++id) {
        if (*id >= std::ssize(documents_))
          fail(Exit::bad_data, index_.path(), ": has a vector ", *id, " of a database of ",
               documents_.size(), " chunks");
        if (std::ranges::find(own, documents_[static_cast<std::size_t>(*id)]) == own.end())
          rows.push_back(*id);
      }
      rows.resize(end, -1);
    }
    return rows;
  }

  const ProjectQueryOptions& options_;
  const RunContext& context_;
  RetroProject project_;
  std::int64_t block_size_;
  ProjectIndex index_;
  ProjectSamples samples_;
  ChunkEmbedder embedder_;
  Products products_;
  std::optional<IndexSearcher> searcher_;  // once asked, as it takes the index to a GPU
  Workers workers_;
  std::vector<ProjectSamples::Document> documents_;  // of all chunks that are retrieved from
  std::string made_of_;
  StageSummary summary_;
};

}  // namespace

StageSummary query_project(const ProjectQueryOptions& options, const RunContext& context) {
  return QueryStage(options, context, false).run();
}

StageSummary verify_project(const ProjectQueryOptions& options, const RunContext& context) {
  return QueryStage(options, context, true).verify();
}

}  // namespace mt
