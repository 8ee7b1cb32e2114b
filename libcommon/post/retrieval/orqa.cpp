// mt-finetune orqa: what it can be told, and how its task is opened.
#include "base/command.h"
#include "base/flag_list.h"
#include "post/retrieval/orqa_task.h"
#include "post/retrieval/tower_options.h"
#include "post/verbs.h"
#include "train/run/training_command.h"

namespace mt {
namespace {

struct OrqaOptions : TowerOptions {
  OrqaOptions() : TowerOptions("orqa") {
    run.checkpoint.keep_option = "--keep-newest";
    seq_length = 256;  // Megatron's default
  }

  void add_to(CommandLine& cl);
  void check_own() const;
  void check_negatives(const std::vector<DprQuestion>& questions, const std::string& path) const;
  std::int64_t negatives() const { return train_with_neg ? train_hard_neg : 0; }
  OrqaTask::Options task_options() const;
  void complete_for(std::int64_t questions);
  std::unique_ptr<OrqaTask> open();
  std::unique_ptr<OrqaTask> planned();

  std::vector<std::string> train_data, valid_data;
  std::optional<std::int64_t> epochs, eval_micro_batch_size;
  bool train_with_neg = false;
  std::int64_t train_hard_neg = 0, val_av_rank_hard_neg = 30, val_av_rank_other_neg = 30;
};

void OrqaOptions::add_to(CommandLine& cl) {
  cl.option("--train-data", &train_data, "FILE",
            "what is learnt: questions with passages, in DPR's JSON; plain, gzip, bzip2 or zstd");
  cl.option("--valid-data", &valid_data, "FILE",
            "what the model is judged by at each epoch's end, likewise");
  cl.option("--epochs", &epochs, "N", "how often all is learnt; 0: only judge", at_least(0));
  cl.flag("--train-with-neg", &train_with_neg,
          "each question also brings passages that do not answer it");
  cl.option("--train-hard-neg", &train_hard_neg, "N",
            "with --train-with-neg: how many, of the hard ones first", between(0, 1000));
  cl.option("--val-av-rank-hard-neg", &val_av_rank_hard_neg, "N",
            "hard passages of a question that its own is judged among, at most", at_least(0));
  cl.option("--val-av-rank-other-neg", &val_av_rank_other_neg, "N",
            "other passages that do not answer it, likewise", at_least(0));
  cl.option("--eval-micro-batch-size", &eval_micro_batch_size, "N",
            "questions that are judged among each other's passages; default --micro-batch-size",
            at_least(1));
  cl.option("--retriever-seq-length", &seq_length, "N",
            "tokens of a text, [CLS] and [SEP] among them, to which it is cut",
            between(4, 1 << 20));
  imply(cl, "samples have --retriever-seq-length tokens", {{"--seq-length", any(kInteger)}});
  add_towers_to(cl);
  add_run_to(cl);
}

void OrqaOptions::check_own() const {
  const auto refuse_if = [&](bool given, const auto&... parts) {
    if (given) fail(Exit::usage, parts...);
  };
  refuse_if(run.length.train_iters > 0 || run.length.train_samples > 0,
            run.length.train_iters > 0 ? "--train-iters" : "--train-samples",
            ": how long such a run is, --epochs says");
  refuse_if(!run.batch.rampup_batch_size.empty() || !run.batch.step_batch_size_schedule.empty(),
            "--rampup-batch-size: batch size scaling is not supported for finetuning");
  refuse_if(run.evaluation.skip_train, "--skip-train: --epochs 0 does that");
  refuse_if(train_hard_neg > 0 && !train_with_neg, "--train-hard-neg: needs --train-with-neg");
  refuse_if(train_with_neg && train_hard_neg == 0,
            "--train-with-neg: --train-hard-neg says how many, at least 1");
  if (model.max_position_embeddings > 0 && seq_length > model.max_position_embeddings)
    fail(Exit::bad_config, "--retriever-seq-length ", seq_length,
         ": more than --max-position-embeddings, ", model.max_position_embeddings);
  if (is_planned()) return;
  refuse_if(!epochs, "--epochs: required");
  refuse_if(*epochs > 0 && train_data.empty(), "--train-data: required");
  refuse_if(*epochs == 0 && valid_data.empty(), "--valid-data: required with --epochs 0");
}

OrqaTask::Options OrqaOptions::task_options() const {
  OrqaTask::Options options{
      .seq_length = seq_length,
      .negatives = negatives(),
      .judged_hard = val_av_rank_hard_neg,
      .judged_others = val_av_rank_other_neg,
      .judged_together = eval_micro_batch_size.value_or(run.batch.micro_batch_size),
      .objective = objective(1 + negatives())};
  options.objective.width = model.embedding_width();
  return options;
}

// How long the run is, the questions say.
void OrqaOptions::complete_for(std::int64_t questions) {
  BatchOptions& batch = run.batch;
  run.evaluation.skip_train = epochs == 0;
  if (run.evaluation.skip_train) run.checkpoint.load_optimizer = false;
  run.length.train_iters = epochs.value_or(0) > 0 ? *epochs : 0;  // as many as there are at least
  if (batch.micro_batch_size == 0) fail(Exit::usage, "--micro-batch-size: required");
  if (questions > 0) {
    run.ranks.complete();
    const int ranks = run.ranks.sizes().dp;
    const EpochOptions order{
        .samples = questions,
        .micro_batch_size = batch.micro_batch_size,
        .ranks = ranks,
        .micro_batches = static_cast<int>(std::max<std::int64_t>(
            1, batch.global_batch_size.value_or(0) / batch.micro_batch_size / ranks))};
    if (order.steps() == 0)
      fail(Exit::bad_config, "--train-data: ", questions, " questions, less than a step of ",
           order.micro_batch_size * order.ranks * order.micro_batches);
    run.length.train_iters = epochs.value_or(0) * order.steps();
  }
  complete(false);
}

void OrqaOptions::check_negatives(const std::vector<DprQuestion>& questions,
                                  const std::string& path) const {
  for (std::size_t i = 0; i < questions.size(); ++i)
    if (const auto there = std::ssize(questions[i].hard) + std::ssize(questions[i].others);
        there < negatives())
      fail(Exit::bad_data, path, ": object ", i, ": ", there,
           " passages that do not answer it, expected at least --train-hard-neg, ", negatives());
}

std::unique_ptr<OrqaTask> OrqaOptions::open() {
  Words words = open_tokenizer();
  take_vocabulary(*words.tokenizer);
  auto opened = std::make_unique<OrqaData>();
  if (epochs.value_or(1) > 0)
    for (const std::string& path : train_data) {
      std::vector<DprQuestion> questions = read_dpr_file(path);
      check_negatives(questions, path);
      std::ranges::move(questions, std::back_inserter(opened->training));
    }
  for (const std::string& path : valid_data) opened->judged.emplace_back(path, read_dpr_file(path));
  complete_for(std::ssize(opened->training));
  opened->tokenizer_options = words.options;
  opened->tokenizer = std::move(words.tokenizer);
  return std::make_unique<OrqaTask>(model, task_options(), std::move(opened));
}

std::unique_ptr<OrqaTask> OrqaOptions::planned() {
  if (!plan.search) complete_for(0);
  return std::make_unique<OrqaTask>(model, task_options());
}

}  // namespace

void finetune_orqa(CommandLine& cl) {
  OrqaOptions options;
  cl.describe("Learn to find passages that answer questions.",
              "Takes the options of race, but for some of its data; flags are those of Megatron's "
              "tasks/main.py --task RET-FINETUNE-NQ.");
  cl.first_run({"--ict-load", "--train-data", "--valid-data", "--retriever-seq-length",
                "--micro-batch-size", "--epochs", "--lr", "--save"});
  options.add_to(cl);
  options.parse(cl);
  options.check_own();
  if (options.is_planned()) {
    options.take_vocabulary_to_plan();
    return print_plan(options.run, options.plan, cl.log(), [&] { return options.planned(); });
  }
  run_training(cl, options.run, options.check_layout, [&] { return options.open(); });
}

}  // namespace mt
