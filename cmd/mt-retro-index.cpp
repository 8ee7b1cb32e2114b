// mt-retro-index: what text is retrieved from while a model is trained.
#include <algorithm>
#include <functional>
#include <iostream>

#include "base/command.h"
#include "base/input/line_reader.h"
#include "cmd/programs.h"
#include "retro/chunk_db.h"
#include "retro/chunk_reader.h"
#include "retro/embed_evidence.h"
#include "retro/project_stages.h"
#include "retro/project_tasks.h"
#include "search/index_commands.h"

namespace {

constexpr const char* kGoesOn =
    "What is made and undamaged stays: the same command goes on where it was stopped.";
constexpr const char* kJson = "print a summary as one JSON object";

void run_build_db(mt::CommandLine& cl) {
  mt::ChunkDbOptions options;
  bool json = false;
  cl.describe("cut token files into chunks, from which neighbours are retrieved", kGoesOn);
  options.add_to(cl);
  cl.flag("--json", &json, kJson);
  cl.parse();
  const auto work = [&](const mt::RunContext& context) {
    const mt::ChunkDbSummary summary = mt::build_chunk_db(options, context);
    if (!json) return;
    mt::JsonWriter line;
    summary.write(line);
    std::cout << line.text() << '\n';
  };
  mt::run_until_signal(cl, work, true);
}

void run_cat(mt::CommandLine& cl) {
  mt::ShowChunksOptions options;
  cl.describe("print chunks, a line of JSON for each");
  options.add_to(cl);
  cl.parse();
  mt::run_until_signal(
      cl, [&](const mt::RunContext& context) { mt::show_chunks(options, context, std::cout); });
}

void run_train(mt::CommandLine& cl, bool with) {
  mt::BuildIndexOptions options;
  cl.describe(with ? "train an index on vectors, and add them to it"
                   : "train an index on vectors, which it does not keep");
  options.add_train_to(cl);
  cl.parse();
  options.compute.complete(true);
  options.compute.warn(cl.log());
  for (const std::string& input : options.inputs) mt::refuse_terminal(input);
  mt::run_until_signal(
      cl, [&](const mt::RunContext& context) { mt::train_index(options, with, context); });
}

void run_add(mt::CommandLine& cl) {
  mt::BuildIndexOptions options;
  cl.describe("add vectors to an index");
  options.add_add_to(cl);
  cl.parse();
  options.compute.complete(true);
  options.compute.warn(cl.log());
  for (const std::string& input : options.inputs) mt::refuse_terminal(input);
  mt::run_until_signal(cl,
                       [&](const mt::RunContext& context) { mt::add_to_index(options, context); });
}

void run_merge(mt::CommandLine& cl) {
  mt::MergeIndexOptions options;
  cl.describe("put the vectors of several indexes in one");
  options.add_to(cl);
  cl.parse();
  mt::run_until_signal(cl,
                       [&](const mt::RunContext& context) { mt::merge_indexes(options, context); });
}

void run_query(mt::CommandLine& cl) {
  mt::QueryIndexOptions options;
  cl.describe("print the nearest of an index's vectors, a line of JSON for each that is asked");
  options.add_to(cl);
  cl.parse();
  options.compute.complete(true);
  options.compute.warn(cl.log());
  for (const std::string& input : options.inputs) mt::refuse_terminal(input);
  mt::run_until_signal(
      cl, [&](const mt::RunContext& context) { mt::query_index(options, context, std::cout); });
}

// A stage of a project: its work, and, if that is asked for, what became of it.
void run_stage(mt::CommandLine& cl, bool json,
               const std::function<mt::StageSummary(const mt::RunContext&)>& work) {
  const auto tell = [&](const mt::RunContext& context) {
    const mt::StageSummary summary = work(context);
    summary.note_left(context.log);
    if (!json) return;
    mt::JsonWriter line;
    summary.write(line);
    std::cout << line.text() << '\n';
  };
  mt::run_until_signal(cl, tell, true);
}

void run_project_index(mt::CommandLine& cl, mt::ProjectIndexOptions::Stage stage) {
  using Stage = mt::ProjectIndexOptions::Stage;
  mt::ProjectIndexOptions options;
  bool json = false;
  cl.describe(stage == Stage::train ? "train a project's index on the chunks that are set aside"
              : stage == Stage::add ? "add the chunks that are retrieved to a project's index"
                                    : "train a project's index, and add its chunks",
              kGoesOn);
  options.add_to(cl, stage);
  cl.flag("--json", &json, kJson);
  cl.parse();
  options.complete();
  options.embedder.compute.warn(cl.log());
  run_stage(cl, json, [&](const mt::RunContext& context) {
    mt::StageSummary summary;
    if (stage != Stage::add) summary = mt::train_project_index(options, context);
    if (stage != Stage::train && summary.complete) {
      const mt::StageSummary added = mt::add_to_project_index(options, context);
      summary.files += added.files;
      summary.complete = added.complete;
    }
    return summary;
  });
}

void run_project_query(mt::CommandLine& cl) {
  mt::ProjectQueryOptions options;
  bool json = false;
  cl.describe("find the neighbours of a project's training", kGoesOn);
  options.add_to(cl);
  cl.flag("--json", &json, kJson);
  cl.parse();
  options.complete();
  options.index.embedder.compute.warn(cl.log());
  run_stage(cl, json,
            [&](const mt::RunContext& context) { return mt::query_project(options, context); });
}

void run_embed(mt::CommandLine& cl) {
  mt::ProjectEmbedOptions options;
  cl.describe("make embeddings of a project's chunks with a BERT", kGoesOn);
  options.add_to(cl);
  cl.parse();
  options.complete();
  options.embedder.compute.warn(cl.log());
  run_stage(cl, false, [&](const mt::RunContext& context) {
    return mt::embed_project(options, context, std::cout);
  });
}

void run_embed_evidence(mt::CommandLine& cl) {
  mt::EmbedEvidenceOptions options;
  cl.describe("make vectors of passages with a model of two towers",
              "Takes the flags of Megatron's create_doc_index.py.");
  options.add_to(cl);
  cl.parse();
  options.towers.compute.complete(true);
  options.towers.compute.warn(cl.log());
  mt::run_until_signal(
      cl, [&](const mt::RunContext& context) { mt::embed_evidence(options, context); });
}

void run_verify(mt::CommandLine& cl) {
  mt::ProjectQueryOptions options;
  bool json = false;
  cl.describe("make some of a project's neighbours again, and compare");
  options.add_verify_to(cl);
  cl.flag("--json", &json, kJson);
  cl.parse();
  options.complete();
  options.index.embedder.compute.warn(cl.log());
  run_stage(cl, json,
            [&](const mt::RunContext& context) { return mt::verify_project(options, context); });
}

void run_tasks(mt::CommandLine& cl) {
  mt::ProjectTasksOptions options;
  bool json = false;
  cl.describe(
      "make what text is retrieved from while a model is trained",
      mt::concat("Takes the flags of Megatron's tools/retro/preprocess_data.py. ", kGoesOn));
  options.add_to(cl);
  cl.flag("--json", &json, "print a summary of each stage as one JSON object");
  cl.parse();
  options.complete(cl);
  options.query.index.embedder.compute.warn(cl.log());
  const auto tell = [&](const mt::JsonWriter& line) {
    if (json) std::cout << line.text() << '\n' << std::flush;
  };
  mt::run_until_signal(
      cl, [&](const mt::RunContext& context) { mt::run_project_tasks(options, context, tell); },
      true);
}

void run(mt::CommandLine& cl) {
  constexpr mt::Verb kVerbs[] = {
      {"build-db", "cut token files into chunks"},
      {"cat", "print chunks"},
      {"embed", "make embeddings of chunks"},
      {"embed-evidence", "make vectors of passages; as embed --ict-load"},
      {"train", "train an index on vectors"},
      {"add", "add vectors to an index"},
      {"build", "train and add at once"},
      {"merge", "put several indexes in one"},
      {"query", "find the nearest of an index's vectors"},
      {"index-train", "train a project's index"},
      {"index-add", "add a project's chunks to its index"},
      {"index-build", "both"},
      {"query-neighbors", "find a training's neighbours"},
      {"verify", "find some of them again, and compare"}};
  const std::string verb = cl.verb(kVerbs);
  if (verb == "build-db") return run_build_db(cl);
  if (verb == "cat") return run_cat(cl);
  if (verb == "train" || verb == "build") return run_train(cl, verb == "build");
  if (verb == "add") return run_add(cl);
  const bool of_towers = std::ranges::any_of(cl.arguments(), [](const std::string& word) {
    return word == "--ict-load" || word.starts_with("--ict-load=") ||
           word == "--evidence-data-path" || word.starts_with("--evidence-data-path=");
  });
  if (verb == "embed-evidence" || (verb == "embed" && of_towers)) return run_embed_evidence(cl);
  if (verb == "embed") return run_embed(cl);
  if (verb == "merge") return run_merge(cl);
  if (verb == "query") return run_query(cl);
  using Stage = mt::ProjectIndexOptions::Stage;
  if (verb == "index-train") return run_project_index(cl, Stage::train);
  if (verb == "index-add") return run_project_index(cl, Stage::add);
  if (verb == "index-build") return run_project_index(cl, Stage::build);
  if (verb == "query-neighbors") return run_project_query(cl);
  if (verb == "verify") return run_verify(cl);
  run_tasks(cl);
}

}  // namespace

int mt_retro_index(int argc, char** argv) {
  return mt::run_command("mt-retro-index", argc, argv, run);
}
