#include "retro/embed_evidence.h"

#include <unordered_set>

#include "base/command.h"
#include "base/error.h"
#include "base/flag_list.h"
#include "base/progress.h"
#include "base/threads.h"
#include "infer/tower_embedder.h"
#include "retro/block_data.h"
#include "retro/evidence.h"
#include "text/bert/tower_text.h"

namespace mt {

void TowerUseOptions::add_to(CommandLine& cl) {
  cl.option("--ict-load,--load", &load, "PATH",
            "the model of two towers: a folder of checkpoints, or one");
  cl.required("--ict-load");
  cl.option("--retriever-seq-length", &length, "N",
            "tokens of a text, [CLS] and [SEP] among them, to which it is cut",
            between(4, 1 << 20));
  cl.option("--indexer-batch-size", &batch, "N",
            "texts of that length at a time, of shorter ones more; changes no result, but by "
            "rounding on a GPU",
            between(1, 65536));
  compute.add_to(cl, kDtypeAsStored);
  cl.option("--threads", &threads, "N", "threads; 0: one a core", between(0, 4096));
  cl.section("Tokenizer");
  tokenizer.add_to(cl);
  launch.add_to(cl);
  cl.option("--biencoder-projection-dim,--ict-head-size", &projection_dim, "N",
            "width of the vectors that a module makes of towers' own, which the model must have",
            at_least(0));
  cl.flag("--biencoder-shared-query-context-model", &shared, "the model must have one tower");
  imply(cl, "texts are cut to --retriever-seq-length", {{"--seq-length", any(kInteger)}});
  imply(cl, "--indexer-batch-size says how many texts are computed at once",
        {{"--global-batch-size", any(kInteger)}, {"--micro-batch-size", any(kInteger)}});
  imply(cl, "texts are read when they are needed, in their order",
        {{"--num-workers", any(kInteger)}});
  imply(cl, "nothing is drawn", {{"--seed", any(kInteger)}});
  imply(cl, "progress is told when time has gone by", {{"--log-interval", any(kInteger)}});
  cl.before_print([&cl] {
    if (cl.given("--vocab-file"))  // as in create_doc_index.py
      cl.fallback("--tokenizer-type", {"BertWordPieceLowerCase"}, "default with --vocab-file");
  });
}

LoadedModel TowerUseOptions::load_towers() const {
  LoadedModel loaded = load_model(load, tokenizer, compute, TowerEmbedder::use());
  const ModelConfig& stored = loaded.model->config();
  launch.check(stored, loaded.path);
  if (launch.takes_checkpoints()) return loaded;
  if (projection_dim && *projection_dim != stored.biencoder_projection_dim)
    fail(Exit::bad_config, loaded.path, ": --biencoder-projection-dim is ",
         stored.biencoder_projection_dim, " in the checkpoint and ", *projection_dim,
         " here; --use-checkpoint-args takes the checkpoint's");
  if (shared && !stored.biencoder_shared_query_context_model)
    fail(Exit::bad_config, loaded.path,
         ": --biencoder-shared-query-context-model is off in the checkpoint and on here; "
         "--use-checkpoint-args takes the checkpoint's");
  return loaded;
}

void EmbedEvidenceOptions::add_to(CommandLine& cl) {
  cl.section("Evidence");
  cl.option("--evidence-data-path", &evidence, "FILE",
            "passages: tab-separated id, text and title behind a line that names them; plain, "
            "gzip, bzip2 "
            "or zstd");
  cl.required("--evidence-data-path");
  cl.option("--embedding-path", &output, "FILE",
            "where their vectors go: Megatron-LM's BlockData, a pickle of float16 by ids");
  cl.required("--embedding-path");
  cl.option("--indexer-log-interval", &log_interval, "N", "batches between two lines of the log",
            at_least(1));
  cl.flag("--force", &force, "replace the file");
  towers.add_to(cl);
}

void embed_evidence(const EmbedEvidenceOptions& options, const RunContext& context) {
  const TowerUseOptions& o = options.towers;
  BlockDataWriter file(options.output, options.force);  // which is refused before all else
  const LoadedModel loaded = o.load_towers();
  TowerEmbedder embedder(loaded, {.of_contexts = true, .batch = o.batch, .threads = o.threads});
  if (o.length > embedder.max_tokens())
    fail(Exit::bad_config, "--retriever-seq-length ", o.length, ": ", loaded.path,
         " takes at most ", embedder.max_tokens(), " tokens");
  const TowerText words(*loaded.tokenizer, o.length);
  Workers workers(o.threads);
  Progress progress(context.log, "embedding", "passages", 0);
  std::unordered_set<std::int64_t> ids;
  std::int64_t batches = 0;
  const auto put = [&](std::span<const Passage> passages) {
    std::vector<std::vector<std::int32_t>> texts(passages.size());
    workers.run([&] {
      parallel_for_ordered_errors(std::ssize(passages), [&](std::int64_t i) {
        const Passage& p = passages[static_cast<std::size_t>(i)];
        texts[static_cast<std::size_t>(i)] =
            embedder.checked(words.passage(p.title, p.text), concat("passage ", p.id));
      });
    });
    const std::vector<float> vectors = embedder.embed(texts);
    const auto columns = static_cast<std::size_t>(embedder.columns());
    for (std::size_t i = 0; i < passages.size(); ++i) {
      if (!ids.insert(passages[i].id).second)
        fail(Exit::bad_data, options.evidence, ": passage ", passages[i].id, " is there twice");
      file.add(passages[i].id, std::span(vectors).subspan(i * columns, columns));
    }
    progress.add(passages.size());
    if (++batches % options.log_interval == 0)
      context.log.event("embedded", {{"batches", batches}, {"passages", std::ssize(ids)}});
  };
  for_passages(
      options.evidence, static_cast<std::size_t>(o.batch), [&] { context.checkpoint(); }, put);
  if (ids.empty()) fail(Exit::bad_data, options.evidence, ": has no passages");
  file.commit();
  progress.finish();
  context.log.event("embedded", {{"passages", std::ssize(ids)}, {"width", embedder.columns()}});
}

}  // namespace mt
