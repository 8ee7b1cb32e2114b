// mt-retro-index: what text is retrieved from while a model is trained.
#include <iostream>

#include "base/command.h"
#include "cmd/programs.h"
#include "retro/chunk_db.h"
#include "retro/chunk_reader.h"

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

void run(mt::CommandLine& cl) {
  constexpr mt::Verb kVerbs[] = {{"build-db", "cut token files into chunks", "db-build"},
                                 {"cat", "print chunks"}};
  const std::string verb = cl.verb(kVerbs, "--retro-tasks");
  if (verb == "build-db") return run_build_db(cl);
  if (verb == "cat") return run_cat(cl);
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
