// mt-retro-index: what text is retrieved from while a model is trained.
#include <iostream>

#include "base/command.h"
#include "base/input/line_reader.h"
#include "cmd/programs.h"
#include "retro/chunk_db.h"
#include "retro/chunk_reader.h"
#include "search/index_commands.h"

namespace {

void run_build_db(mt::CommandLine& cl) {
  mt::ChunkDbOptions options;
  bool json = false;
  cl.describe("cut token files into chunks, from which neighbours are retrieved",
              "What is made and undamaged stays: the same command goes on where it was stopped.");
  options.add_to(cl);
  cl.flag("--json", &json, "print a summary as one JSON object");
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
  for (const std::string& input : options.inputs) mt::refuse_terminal(input);
  mt::run_until_signal(
      cl, [&](const mt::RunContext& context) { mt::train_index(options, with, context); });
}

void run_add(mt::CommandLine& cl) {
  mt::BuildIndexOptions options;
  cl.describe("add vectors to an index");
  options.add_add_to(cl);
  cl.parse();
  for (const std::string& input : options.inputs) mt::refuse_terminal(input);
  mt::run_until_signal(cl,
                       [&](const mt::RunContext& context) { mt::add_to_index(options, context); });
}

void run_query(mt::CommandLine& cl) {
  mt::QueryIndexOptions options;
  cl.describe("print the nearest of an index's vectors, a line of JSON for each that is asked");
  options.add_to(cl);
  cl.parse();
  for (const std::string& input : options.inputs) mt::refuse_terminal(input);
  mt::run_until_signal(
      cl, [&](const mt::RunContext& context) { mt::query_index(options, context, std::cout); });
}

void run(mt::CommandLine& cl) {
  constexpr mt::Verb kVerbs[] = {{"build-db", "cut token files into chunks", "db-build"},
                                 {"cat", "print chunks"},
                                 {"train", "train an index on vectors"},
                                 {"add", "add vectors to an index"},
                                 {"build", "train and add at once"},
                                 {"query", "find the nearest of an index's vectors"}};
  const std::string verb = cl.verb(kVerbs, "--retro-tasks");
  if (verb == "build-db") return run_build_db(cl);
  if (verb == "cat") return run_cat(cl);
  if (verb == "train" || verb == "build") return run_train(cl, verb == "build");
  if (verb == "add") return run_add(cl);
  if (verb == "query") return run_query(cl);
  cl.describe("Make what text is retrieved from while a model is trained.",
              "--retro-tasks db-build of Megatron's preprocess_data.py names the verb, too.");
  std::string unknown;
  cl.positional("VERB", &unknown, "what is to be made or printed");
  cl.parse();
  mt::fail(mt::Exit::usage, unknown, ": is no verb (see mt-retro-index --help)");
}

}  // namespace

int mt_retro_index(int argc, char** argv) {
  return mt::run_command("mt-retro-index", argc, argv, run);
}
