#include "retro/neighbor_lookup.h"

#include "base/command.h"
#include "base/error.h"
#include "model/config/model_config.h"
#include "retro/chunk_reader.h"
#include "retro/chunk_text.h"

namespace mt {

void NeighborLookupOptions::add_to(CommandLine& cl) {
  cl.section("Neighbours of a Retro");
  cl.option("--retro-attention-gate", &gate, "0|1",
            "0: texts are continued without neighbours, as mt-finetune sft has it", between(0, 1));
  cl.option(
      "--retro-project-dir", &index.project, "DIR",
      "a project whose index has the neighbours of a text's last chunk, for prompts that bring "
      "none");
  cl.option("--bert-load", &index.embedder.load, "PATH", "the BERT that the index was made by");
  cl.option("--retro-index-str", &index.string, "STRING", "the index");
  cl.option("--retro-index-type", &index.type, "TYPE", "its folder",
            one_of({"faiss-base", "faiss-par-add"}));
  cl.option("--retro-index-train-load-fraction", &index.train_fraction, "F", "as it was made",
            between(0, 1));
  cl.option("--retro-index-add-load-fraction", &index.add_fraction, "F", "as it was made",
            between(0, 1));
  cl.option("--retro-bert-max-chunk-length", &index.embedder.max_length, "N",
            "tokens of a chunk to the BERT, as the index was made", between(3, 1 << 20));
  cl.option("--retro-query-nprobe", &lists, "N", "lists of an IVF that are looked through",
            at_least(1));
  cl.option("--retro-query-ef-search", &ef_search, "N",
            "centres that a graph of them is searched with", at_least(1));
}

bool NeighborLookupOptions::complete(const CommandLine& cl, const DeviceOptions& compute,
                                     int threads) {
  constexpr const char* kProject = "--retro-project-dir";
  const bool looks = cl.given(kProject);
  for (const char* const name :
       {"--bert-load", "--retro-index-str", "--retro-index-type",
        "--retro-index-train-load-fraction", "--retro-index-add-load-fraction",
        "--retro-bert-max-chunk-length", "--retro-query-nprobe", "--retro-query-ef-search"})
    if (!looks && cl.given(name)) fail(Exit::usage, name, ": needs ", kProject);
  for (const char* const name : {"--bert-load", "--retro-index-str"})
    if (looks && !cl.given(name)) fail(Exit::usage, kProject, ": needs ", name);
  if (looks && gate == 0)
    fail(Exit::usage, kProject, ": has no effect with --retro-attention-gate 0");
  index.embedder.compute = compute;
  index.embedder.batch = 1;
  index.embedder.threads = threads;
  index.threads = threads;
  return looks;
}

namespace {

class Lookup final : public NeighborSource {
 public:
  Lookup(const NeighborLookupOptions& options, const LoadedModel& retro)
      : project_(options.index.project),
        index_(project_, options.index),
        embedder_(options.index.embedder, project_.bert_tokenizer()),
        chunks_(project_, "train"),
        text_(*retro.tokenizer),
        products_(options.index.threads),
        search_{.count = 0, .lists = options.lists, .ef_search = options.ef_search},
        chunk_length_(retro.model->config().retro_chunk_length) {
    index_.check(project_, options.index, embedder_);
    const std::int64_t length = project_.number("retro_gpt_chunk_length", "build-db");
    if (length != chunk_length_)
      fail(Exit::bad_config, retro.path, ": has chunks of ", chunk_length_, " tokens, and ",
           options.index.project, " of ", length);
    if (chunks_.tokenizer().identity() != retro.tokenizer->identity())
      fail(Exit::bad_config, retro.path, ": has other tokens than ", options.index.project);
    if (chunks_.size() == 0)
      fail(Exit::bad_data, options.index.project, ": has no chunks to be retrieved");
  }

  std::vector<std::int64_t> find(std::span<const std::int32_t> chunk, std::int64_t count) override {
    search_.count = count;
    const std::vector<std::string> texts = {text_.of(chunk)};
    std::vector<std::int64_t> ids =
        index_.vectors().search(embedder_.embed(texts), search_, products_).ids;
    for (const std::int64_t id : ids)
      if (id >= chunks_.size())
        fail(Exit::bad_data, index_.path(), ": has a vector ", id, " of a database of ",
             chunks_.size(), " chunks");
    return ids;
  }

  void read(std::int64_t chunk, std::span<std::int32_t> tokens) override {
    const std::int64_t all = chunks_.size();
    const auto length = static_cast<std::size_t>(chunk_length_);
    for (std::size_t at = 0; at < tokens.size(); at += length, ++chunk) {
      const std::int64_t number = (chunk % all + all) % all;  // -1, of none, is the last
      chunks_.tokens(chunks_.read({number, number + 1}).front(), tokens.subspan(at, length));
    }
  }

 private:
  RetroProject project_;
  ProjectIndex index_;
  ChunkEmbedder embedder_;
  ChunkReader chunks_;
  ChunkText text_;
  Products products_;
  IndexSearch search_;
  std::int64_t chunk_length_;
};

}  // namespace

std::unique_ptr<NeighborSource> open_neighbor_lookup(const NeighborLookupOptions& options,
                                                     const LoadedModel& retro) {
  return std::make_unique<Lookup>(options, retro);
}

}  // namespace mt
