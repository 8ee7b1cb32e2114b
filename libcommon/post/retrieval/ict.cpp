// mt-finetune ict: what it can be told, and how its task is opened.
#include "base/command.h"
#include "post/retrieval/ict_task.h"
#include "post/retrieval/tower_options.h"
#include "post/verbs.h"
#include "train/run/training_command.h"

namespace mt {
namespace {

struct IctOptions : TowerOptions {
  IctOptions() : TowerOptions("ict") {}

  void add_to(CommandLine& cl);
  IctTask::Options task_options() const;
  std::unique_ptr<IctTask> open();
  std::unique_ptr<IctTask> planned();

  DataOptions text;
  std::vector<std::string> titles_data_path;
  double query_in_block_prob = 0.1;
  bool use_one_sent_docs = false;
};

void IctOptions::add_to(CommandLine& cl) {
  text.sources.add_to(cl);
  cl.option("--titles-data-path", &titles_data_path, "PREFIX",
            "for each --data-path a token file with a title for each of its documents");
  cl.option("--query-in-block-prob", &query_in_block_prob, "P",
            "part of the samples whose sentence stays in its block", between(0, 1));
  cl.flag("--use-one-sent-docs", &use_one_sent_docs, "blocks may have one sentence");
  text.add_reading_to(cl);
  add_towers_to(cl);
  add_run_to(cl);
}

// [CLS], a title and [SEP] stand in front of what is left of a block, and [SEP] behind it.
void check_titles(const IndexedDataset& titles, std::int64_t seq_length) {
  for (std::int64_t i = 0; i < titles.sequences(); ++i)
    if (titles.length(i) + 3 > seq_length)
      fail(Exit::bad_data, titles.name(), ": sequence ", i, ": a title of ", titles.length(i),
           " tokens, expected at most --seq-length less 3, ", seq_length - 3);
}

IctTask::Options IctOptions::task_options() const {
  return {.text = text,
          .samples = {.seq_length = seq_length,
                      .query_in_block_prob = query_in_block_prob,
                      .use_one_sent_docs = use_one_sent_docs},
          .objective = objective(1)};
}

std::unique_ptr<IctTask> IctOptions::open() {
  text.tokenizer = tokenizer;
  text.threads = run.ranks.threads;
  if (text.sources.mock_data) fail(Exit::usage, "--mock-data: has no titles; give --data-path");
  if (titles_data_path.empty()) fail(Exit::usage, "--titles-data-path: required");
  auto opened = std::make_unique<IctData>();
  opened->sources = read_sources(text.sources);
  const std::vector<std::string> prefixes = opened->sources.prefixes();
  if (titles_data_path.size() != prefixes.size())
    fail(Exit::usage, "--titles-data-path: ", titles_data_path.size(), " prefixes, expected ",
         prefixes.size(), ", one for each of --data-path");
  opened->tokenizer = run_tokenizer(text);
  opened->pieces = WordPieces::of(*opened->tokenizer.tokenizer);
  take_vocabulary(*opened->tokenizer.tokenizer);
  complete(false);
  opened->files = open_token_files(prefixes, text);
  opened->titles = open_token_files(titles_data_path, text);
  for (const auto& file : opened->files) check_sentences(*file);
  for (const auto& file : opened->titles) check_titles(*file, seq_length);
  return std::make_unique<IctTask>(model, task_options(), std::move(opened));
}

std::unique_ptr<IctTask> IctOptions::planned() {
  if (!plan.search) complete(false);
  return std::make_unique<IctTask>(model, task_options());
}

}  // namespace

void finetune_ict(CommandLine& cl) {
  IctOptions options;
  cl.describe("Learn to find a block of text by one of its sentences.",
              "Takes the options of race, but for those of its data; flags are those of Megatron's "
              "pretrain_ict.py.");
  cl.first_run({"--bert-load", "--data-path", "--titles-data-path", "--seq-length",
                "--micro-batch-size", "--train-iters", "--lr", "--save"});
  options.add_to(cl);
  options.parse(cl);
  if (options.is_planned()) {
    options.take_vocabulary_to_plan();
    return print_plan(options.run, options.plan, cl.log(), [&] { return options.planned(); });
  }
  run_training(cl, options.run, options.check_layout, [&] { return options.open(); });
}

}  // namespace mt
