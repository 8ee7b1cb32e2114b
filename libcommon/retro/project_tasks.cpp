#include "retro/project_tasks.h"

#include <algorithm>
#include <string_view>

#include "base/command.h"
#include "base/error.h"
#include "base/flag_list.h"

namespace mt {
namespace {

struct Name {
  std::string_view name;
  std::vector<ProjectTask> tasks;
};

std::vector<ProjectTask> tasks_of(const std::string& list) {
  using enum ProjectTask;
  const Name names[] = {{"build", {db_build, index_train, index_add, query_neighbors}},
                        {"db-build", {db_build}},
                        {"index-build", {index_train, index_add}},
                        {"index-train", {index_train}},
                        {"index-add", {index_add}},
                        {"query-neighbors", {query_neighbors}}};
  std::vector<ProjectTask> tasks;
  for (std::string_view rest = list;;) {
    const std::string_view word = rest.substr(0, rest.find(','));
    const auto* const found = std::ranges::find(names, word, &Name::name);
    if (found == std::end(names))
      fail(Exit::usage, "--retro-tasks ", list,
           ": expected build, db-build, index-build, index-train, index-add or query-neighbors, or "
           "several with commas between, not \"",
           word, '"');
    tasks.insert(tasks.end(), found->tasks.begin(), found->tasks.end());
    if (word.size() == rest.size()) return tasks;
    rest.remove_prefix(word.size() + 1);
  }
}

void require(const CommandLine& cl, const char* name, const char* task) {
  if (!cl.given(name)) fail(Exit::usage, name, ": not given, but ", task, " requires it");
}

// What a launch script says twice: of the training in general, and for Retro.
void agree(const std::optional<std::int64_t>& general, std::optional<std::int64_t>& retro,
           const std::string& name) {
  if (!general) return;
  if (retro && *retro != *general)
    fail(Exit::usage, "--", name, " ", *general, ": is ", *retro, " by --retro-gpt-", name,
         ", and neighbours are of one training");
  retro = general;
}

// What a launch script says of a training, where none is.
void add_training_to(CommandLine& cl) {
  constexpr const char* kNothing = "nothing is trained here";
  imply(cl, kNothing,
        {{"--lr", any(kNumber)},
         {"--min-lr", any(kNumber)},
         {"--lr-decay-style", any(kText)},
         {"--lr-decay-samples", any(kInteger)},
         {"--lr-warmup-samples", any(kInteger)},
         {"--lr-warmup-fraction", any(kNumber)},
         {"--weight-decay", any(kNumber)},
         {"--clip-grad", any(kNumber)},
         {"--optimizer", any(kText)},
         {"--adam-beta1", any(kNumber)},
         {"--adam-beta2", any(kNumber)},
         {"--adam-eps", any(kNumber)},
         {"--seed", any(kInteger)},
         {"--no-async-tensor-model-parallel-allreduce"}});
  imply(cl, "a project's token files are those of --retro-gpt-data-path, by --retro-gpt-split",
        {{"--data-path", any(kTexts)}, {"--split", any(kText)}});
  imply(cl, "texts are cut to --retro-bert-max-chunk-length", {{"--seq-length", any(kInteger)}});
  imply(cl, "--retro-bert-batch-size says how many chunks are computed at once",
        {{"--micro-batch-size", any(kInteger)}});
  imply(cl, "neighbours are of samples in their order, whichever a training reads first",
        {{"--dataloader-type", each({"single", "cyclic"})},
         {"--no-data-sharding"},
         {"--num-workers", any(kInteger)}});
  imply(cl, "samples are the same",
        {{"--reset-position-ids"}, {"--reset-attention-mask"}, {"--eod-mask-loss"}});
  imply(cl, "a BERT that is not there is an error", {{"--exit-on-missing-checkpoint"}});
  imply(cl, "embeddings are what the BERT is loaded for",
        {{"--bert-embedder-type", only("megatron")}, {"--output-bert-embeddings"}});
  imply(cl, "there is one process, which waits for none",
        {{"--distributed-timeout-minutes", any(kInteger)}});
  imply(cl, "progress is told when time has gone by", {{"--log-interval", any(kInteger)}});
  refuse(cl, "a project has one blend of token files, that --retro-gpt-split parts",
         {{"--train-data-path"}, {"--valid-data-path"}, {"--test-data-path"}, {"--mock-data"}});
}

}  // namespace

void ProjectTasksOptions::add_to(CommandLine& cl) {
  ProjectIndexOptions& index = query.index;
  cl.section("Project");
  cl.option("--retro-tasks", &list, "LIST",
            "what is made, in this order, with commas between: db-build, index-train, index-add, "
            "query-neighbors; index-build is the two of the index, build all");
  cl.option("--retro-project-dir", &index.project, "DIR",
            "the project's folder, with the token files, or links to them, in DIR/data");
  cl.required("--retro-project-dir");
  cl.flag("--force", &index.force, "make anew what the project has with other settings");
  index.add_share_to(cl);
  db.add_content_to(cl);
  index.add_content_to(cl, ProjectIndexOptions::Stage::build);
  query.add_search_to(cl);
  cl.option("--retro-task-validate", &query.fraction, "F",
            "share of the blocks of query-neighbors, which are made again and compared, and none "
            "kept",
            between(0, 1));
  cl.section("The BERT's tokenizer");
  index.embedder.tokenizer.add_to(cl);
  cl.section("The training, as a launch script says it");
  for (const auto& [name, value] :
       {std::pair{"train-samples", &train_samples},
        std::pair{"global-batch-size", &global_batch_size},
        std::pair{"eval-interval", &eval_interval}, std::pair{"eval-iters", &eval_iters}})
    cl.option(concat("--", name), value, "N", concat("as --retro-gpt-", name), at_least(0));
  cl.section("Speed and talk");
  cl.option("--threads,-j", &index.threads, "N", "worker threads; 0: one a core", at_least(0));
  add_training_to(cl);
  index.embedder.launch.add_to(cl);
}

void ProjectTasksOptions::complete(const CommandLine& cl) {
  using enum ProjectTask;
  tasks = tasks_of(list);
  const bool cuts = std::ranges::count(tasks, db_build) > 0;
  const bool embeds = std::ranges::any_of(tasks, [](ProjectTask task) { return task != db_build; });
  if (query.fraction && tasks != std::vector{query_neighbors})
    fail(Exit::usage,
         "--retro-task-validate: expected --retro-tasks query-neighbors; what other "
         "tasks made, the same command again checks by its hashes");
  if (cuts)
    for (const char* const name : ChunkDbOptions::kRequired) require(cl, name, "db-build");
  if (embeds) {
    for (const char* const name : {"--load", "--retro-index-str"}) require(cl, name, "an index");
    query.complete();
  }
  agree(train_samples, query.run.train_samples, "train-samples");
  agree(global_batch_size, query.run.global_batch_size, "global-batch-size");
  agree(eval_interval, query.run.eval_interval, "eval-interval");
  agree(eval_iters, query.run.eval_iters, "eval-iters");
  if (cuts && !query.index.share.is_whole())
    fail(Exit::usage, "--shard ", query.index.share_text, ": db-build is made by one process");
  db.project = query.index.project;
  db.run = query.run;
  db.chunk_block = query.index.block_size;
  db.force = query.index.force;
  db.threads = query.index.threads;
  if (cuts) return;
  said = db.settings(db.gpt);
  if (!cl.given("--retro-gpt-chunk-length")) said.erase("retro_gpt_chunk_length");
  if (!query.index.force) return;
  said.erase("retro_block_size");  // the stages make these anew themselves
  for (const auto& [key, value] : query.run.settings()) said.erase(key);
}

void run_project_tasks(const ProjectTasksOptions& options, const RunContext& context,
                       const std::function<void(const JsonWriter&)>& tell) {
  const RetroProject project(options.query.index.project);
  project.check_settings(options.said);
  if (options.tasks.front() == ProjectTask::db_build && options.tasks.size() > 1)
    // Refuses, before chunks are cut, a BERT that cannot embed them.
    ChunkEmbedder(
        options.query.index.embedder,
        {.type = options.db.bert.type, .vocab_file = project.path(options.db.bert.vocab_file)});
  for (const ProjectTask task : options.tasks) {
    JsonWriter line;
    if (task == ProjectTask::db_build) {
      build_chunk_db(options.db, context).write(line);
      tell(line);
      continue;
    }
    const ProjectIndexOptions& index = options.query.index;
    const StageSummary summary =
        task == ProjectTask::index_train ? train_project_index(index, context)
        : task == ProjectTask::index_add ? add_to_project_index(index, context)
        : options.query.fraction         ? verify_project(options.query, context)
                                         : query_project(options.query, context);
    summary.note_left(context.log);
    summary.write(line);
    tell(line);
    if (!summary.complete) return;
  }
}

}  // namespace mt
