// The stages of a project that make its index (project_stages.h).
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/folder.h"
#include "base/hash.h"
#include "base/memory.h"
#include "retro/embedded_chunks.h"
#include "retro/project_stages.h"
#include "search/index_file.h"

namespace mt {
namespace {

template <class... Parts>
std::string hash_of(const Parts&... parts) {
  Hasher hasher;
  (hasher.update(concat(parts, "\n")), ...);
  return hasher.hex();
}

// What the stages that embed the chunks of a database have in common.
class IndexStage {
 public:
  IndexStage(const ProjectIndexOptions& options, const std::string& database,
             const RunContext& context)
      : options_(options),
        context_(context),
        project_(options.project),
        chunks_(project_, database, options.embedder),
        block_size_(options.blocks_of(project_)),
        files_(project_.path("index"), options.force, options.share) {}

 protected:
  void save(const VectorIndex& index, const std::string& file, const std::string& made_of) {
    make_folder(parent_directory(files_.path(file)));
    AtomicFile written(files_.path(file), true);
    Hasher hasher;
    write_index(index, [&](Bytes bytes) {
      written.write(bytes);
      hasher.update(bytes);
    });
    files_.commit(written, hasher.hex(), file, made_of);
    ++summary_.files.made;
  }
  // Which rows the first `fraction` of each block are: of all blocks all.
  std::string part_of_blocks(double fraction) const {
    return concat(fraction, " of ", fraction < 1 ? block_size_ : 1);
  }
  // Whether nothing is to be done, as the file is there.
  bool is_made(const std::string& file, const std::string& made_of) {
    if (!files_.has(file, made_of, context_.log)) return false;
    ++summary_.files.found;
    return true;
  }

  const ProjectIndexOptions& options_;
  const RunContext& context_;
  RetroProject project_;
  EmbeddedChunks chunks_;
  std::int64_t block_size_;
  StageFiles files_;
  StageSummary summary_;
};

class TrainStage : IndexStage {
 public:
  TrainStage(const ProjectIndexOptions& options, const RunContext& context)
      : IndexStage(options, "sampled", context) {}

  StageSummary run() {
    const std::string rows_of = hash_of("mt-train-embeddings/1", chunks_.identity());
    const std::string made_of =
        concat(trained_beginning(chunks_.embedder_identity()),
               hash_of(rows_of, options_.string, part_of_blocks(options_.train_fraction)));
    VectorIndex index = make_index("--retro-index-str", options_.string, chunks_.columns());
    StageBlocks<float> blocks(files_, {.folder = "train_emb/blocks",
                                       .array = "data",
                                       .items = chunks_.size(),
                                       .block_size = block_size_,
                                       .columns = chunks_.columns(),
                                       .made_of = rows_of});
    check_count(index, blocks.rows(options_.train_fraction));
    if (is_made(options_.empty_file(), made_of)) return finish();
    blocks.refuse_others();
    Progress embedding(context_.log, "embedding", "chunks",
                       static_cast<std::uint64_t>(chunks_.size()));
    blocks.make(options_.share, context_, embedding, summary_.files,
                [&](ItemRange items) { return chunks_.embed(items); });
    embedding.finish();
    if (summary_.files.left > 0) {
      summary_.complete = false;
      return summary_;
    }
    const std::int64_t rows = blocks.rows(options_.train_fraction);
    const auto numbers = static_cast<std::size_t>(rows * chunks_.columns());
    expect_memory(numbers * sizeof(float), concat("training on ", rows, " vectors"));
    std::vector<float> vectors;
    vectors.reserve(numbers);
    blocks.read(options_.train_fraction, context_,
                [&](const std::vector<float>& some, std::int64_t) {
                  vectors.insert(vectors.end(), some.begin(), some.end());
                });
    Products products(options_.threads, context_.checkpoint, options_.embedder.compute.device());
    index.train(vectors, products);
    save(index, options_.empty_file(), made_of);
    return finish();
  }

 private:
  StageSummary finish() {
    if (options_.delete_embeddings) files_.remove("train_emb");
    return summary_;
  }

  // Before the chunks are embedded, which takes long.
  void check_count(const VectorIndex& index, std::int64_t count) const {
    if (count < index.fewest_vectors())
      fail(Exit::bad_config, "--retro-index-str ", options_.string, ": is trained on at least ",
           index.fewest_vectors(), " chunks; the project has ", chunks_.size(),
           " set aside for it, of which ", count, " are loaded");
  }
};

class AddStage : IndexStage {
 public:
  AddStage(const ProjectIndexOptions& options, const RunContext& context)
      : IndexStage(options, "train", context) {}

  StageSummary run() {
    const std::string empty = files_.path(options_.empty_file());
    if (!std::filesystem::exists(empty))
      fail(Exit::no_input, empty, ": no such file, expected a trained index; see index-train");
    VectorIndex index = read_index(empty);
    if (index.columns() != chunks_.columns())
      fail(Exit::bad_config, empty, ": has vectors of ", index.columns(),
           " columns, and the BERT's have ", chunks_.columns());
    if (!index.has_gaps() && options_.add_fraction < 1)
      fail(Exit::bad_config, "--retro-index-add-load-fraction ", options_.add_fraction, ": ",
           options_.string, " has no numbers of vectors, and keeps all");
    const std::string trained = hash_file(empty);
    check_index_content(files_.lists(), options_.empty_file(), empty, trained,
                        trained_beginning(chunks_.embedder_identity()));
    const std::string rows_of = hash_of("mt-added-codes/1", chunks_.identity(), trained);
    const std::string made_of = concat(added_beginning(chunks_.identity()),
                                       hash_of(rows_of, part_of_blocks(options_.add_fraction)));
    if (is_made(options_.added_file(), made_of)) return finish();
    StageBlocks<std::uint8_t> blocks(files_, {.folder = options_.folder() + "/add_codes",
                                              .array = "data",
                                              .items = chunks_.size(),
                                              .block_size = block_size_,
                                              .columns = index.code_size(),
                                              .made_of = rows_of});
    blocks.refuse_others();
    Products products(options_.threads, context_.checkpoint, options_.embedder.compute.device());
    Progress encoding(context_.log, "encoding", "chunks",
                      static_cast<std::uint64_t>(chunks_.size()));
    blocks.make(options_.share, context_, encoding, summary_.files,
                [&](ItemRange items) { return index.encode(chunks_.embed(items), products); });
    encoding.finish();
    if (summary_.files.left > 0) {
      summary_.complete = false;
      return summary_;
    }
    blocks.read(options_.add_fraction, context_,
                [&](const std::vector<std::uint8_t>& codes, std::int64_t first) {
                  products.run([&] { index.add_codes(codes, first); });
                });
    save(index, options_.added_file(), made_of);
    return finish();
  }

 private:
  StageSummary finish() {
    if (options_.delete_codes) files_.remove(options_.folder() + "/add_codes");
    return summary_;
  }
};

}  // namespace

std::string trained_beginning(const std::string& embedder) {
  return hash_of("mt-trained-by/1", embedder) + " ";
}

std::string added_beginning(const std::string& chunks) {
  return hash_of("mt-added-of/1", chunks) + " ";
}

void check_index_content(const StageLists& lists, const std::string& file, const std::string& path,
                         const std::string& hash, const std::string& beginning) {
  const std::set<std::string> content = lists.made_of(file, hash);
  if (content.empty() || std::ranges::any_of(content, [&](const std::string& made_of) {
        return made_of.starts_with(beginning);
      }))
    return;
  fail(Exit::bad_config, path,
       ": was made of other chunks, or by another model, tokenizer, length or --dtype");
}

static VectorIndex open_index(const std::string& path) {
  if (!std::filesystem::exists(path))
    fail(Exit::no_input, path, ": no such file, expected an index; see index-add");
  return read_index(path);
}

ProjectIndex::ProjectIndex(const RetroProject& project, const ProjectIndexOptions& options)
    : path_(project.path("index/" + options.added_file())), vectors_(open_index(path_)) {}

void ProjectIndex::check(const RetroProject& project, const ProjectIndexOptions& options,
                         const ChunkEmbedder& embedder) {
  if (vectors_.columns() != embedder.columns())
    fail(Exit::bad_config, path_, ": has vectors of ", vectors_.columns(),
         " columns, and the BERT's have ", embedder.columns());
  const std::string chunks = EmbeddedChunks::identity_of(project, "train", embedder.identity());
  const std::string hash = hash_file(path_);
  check_index_content(StageLists(project.path("index")), options.added_file(), path_, hash,
                      added_beginning(chunks));
  identity_ = concat(hash, "\n", chunks, "\n");
}

StageSummary train_project_index(const ProjectIndexOptions& options, const RunContext& context) {
  return TrainStage(options, context).run();
}

StageSummary add_to_project_index(const ProjectIndexOptions& options, const RunContext& context) {
  return AddStage(options, context).run();
}

}  // namespace mt
