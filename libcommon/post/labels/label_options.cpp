#include "post/labels/label_options.h"

#include <algorithm>
#include <filesystem>

#include "base/command.h"
#include "base/file.h"
#include "ckpt/megatron_checkpoint.h"
#include "post/labels/glue_files.h"
#include "post/labels/labelled_lines.h"
#include "post/labels/race_folder.h"
#include "post/verbs.h"
#include "train/run/training_command.h"

namespace mt {

LabelOptions::LabelOptions(const LabelVerb& of) : verb(of) {
  run = RunOptions();  // Megatron's defaults
  run.checkpoint.keep_option = "--keep-newest";
  has_full_validation = false;
  takes_bert = true;
  if (!verb.is_classify) model_type = "bert";
}

void LabelOptions::add_to(CommandLine& cl) {
  cl.option("--train-data", &train_data, "PATH", concat("what is learnt: ", verb.files));
  cl.option("--valid-data", &valid_data, "PATH",
            "what the model is evaluated on, likewise: at each epoch's end all of each path");
  if (verb.is_classify)
    cl.option("--valid-split", &valid_split, "F",
              "without --valid-data: the share of the training data that the model is evaluated on "
              "instead of learning it, chosen by a hash of its texts",
              between(0, 0.99));
  cl.option("--epochs", &epochs, "N", "how often all is learnt; 0: only evaluate", at_least(0));
  cl.flag("--keep-last", &keep_last, "also learn from what is left behind the last whole batch");
  cl.option(
      "--predictions", &predictions, "FILE",
      "where the model's answers to what it is evaluated on go, as JSON lines, at each epoch's "
      "end in place of those before; - is stdout; with --epochs 0 and --load they go there by "
      "default");
  if (verb.is_classify)
    cl.option("--columns", &columns, "ROLE=COLUMN,...",
              "the files are lines of columns, which tabs or, in .csv files, commas part: text, "
              "text_b, label and uid by numbers, from 1, or by the names in the first line");
  cl.option("--head-lr-mult", &head_lr_mult, "F",
            "the learning rate of the new head is multiplied by this", greater_than(0));
  add_run_to(cl);
  cl.off_switch("--bert-no-binary-head", &model.bert_binary_head,
                "a BERT without pooler and types of tokens, which has no task's head");
}

void LabelOptions::parse(CommandLine& cl) {
  cl.before_print([&] {
    take_stored(cl, run.checkpoint, plan);
    if (cl.given("--vocab-file"))  // as in tasks/main.py of a BERT
      cl.fallback("--tokenizer-type",
                  {model_type == "bert" ? "BertWordPieceLowerCase" : "GPT2BPETokenizer"},
                  "default with --vocab-file");
  });
  cl.parse();
  make_experts();  // with which there are no heads
  if (model_type == "bert") model.family = ModelFamily::bert;
  encoder.check_unused("mt-finetune " + std::string(verb.name));
  find_ranks(cl, run, !is_planned());
  tokenizer.vocab_size = model.vocab_size;
  choose_predictions();
  run.checkpoint.writes_further = !predictions.empty() && predictions != "-";
  check();
}

// What such a run cannot do, or is told by others than these options.
void LabelOptions::check() const {
  const std::string of = concat("mt-finetune ", verb.name);
  if (model_type != "bert" && !(verb.is_classify && model_type == "gpt"))
    fail(Exit::usage, "--model-type ", model_type, ": ", of, " is of a BERT",
         verb.is_classify ? " or a GPT" : "");
  if (model.family == ModelFamily::mixtral)
    fail(Exit::bad_config, "--num-experts ", model.num_experts, ": not with ", of,
         ", whose heads are of models without experts");
  if (model.label_smoothing > 0)
    fail(Exit::bad_config, "--label-smoothing ", model.label_smoothing, ": not with ", of,
         ", whose losses are of labels as they are");
  const auto refuse_if = [&](bool given, const auto&... parts) {
    if (given) fail(Exit::usage, parts...);
  };
  refuse_if(run.length.train_iters > 0 || run.length.train_samples > 0,
            run.length.train_iters > 0 ? "--train-iters" : "--train-samples",
            ": how long such a run is, --epochs says");
  refuse_if(!run.batch.rampup_batch_size.empty() || !run.batch.step_batch_size_schedule.empty(),
            "--rampup-batch-size: batch size scaling is not supported for finetuning");
  refuse_if(run.batch.calculate_per_token_loss, "--calculate-per-token-loss: of ", of,
            " every micro-batch weighs the same");
  refuse_if(run.evaluation.skip_train, "--skip-train: --epochs 0 does that");
  refuse_if(valid_split > 0 && !valid_data.empty(),
            "--valid-split: has no effect with --valid-data");
  refuse_if(!predictions.empty() && valid_data.empty() && valid_split == 0,
            "--predictions: needs --valid-data", verb.is_classify ? ", or --valid-split" : "");
  refuse_if(predictions == "-" && run.report.json, "--predictions -: not with --json");
  if (run.ranks.parallel.context_parallel_size > 1)
    fail(Exit::bad_config, "--context-parallel-size ", run.ranks.parallel.context_parallel_size,
         ": not with ", of, ", whose head is asked of one token of a sequence");
  if (is_planned()) return;
  refuse_if(!epochs, "--epochs: required");
  refuse_if(*epochs > 0 && train_data.empty(), "--train-data: required");
  refuse_if(*epochs == 0 && valid_data.empty(), "--valid-data: required with --epochs 0");
}

// Those of a model that is only asked lie beside it.
void LabelOptions::choose_predictions() {
  const std::string& load = run.checkpoint.load;
  if (!predictions.empty() || epochs != 0 || valid_data.empty() || load.empty() || is_planned())
    return;
  std::string name = "predictions";
  for (const std::string& path : valid_data) name += "_" + name_of(path);
  std::ranges::replace(name, '/', '-');
  predictions = concat(load, "/", name, ".jsonl");
}

// What lies where --predictions go is replaced only by who was told to, or goes on with its run.
void LabelOptions::check_predictions() const {
  if (predictions.empty() || predictions == "-") return;
  std::vector<std::string> inputs = train_data;
  inputs.insert(inputs.end(), valid_data.begin(), valid_data.end());
  refuse_inputs(std::vector{predictions}, inputs);
  const Launch& process = run.ranks.process;
  if (run.checkpoint.force || process.rank > 0 || process.attempt > 0 || is_stream(predictions) ||
      (run.checkpoint.goes_on_in_place() && find_checkpoint(run.checkpoint.load)))
    return;
  if (std::filesystem::exists(std::filesystem::symlink_status(predictions)))
    fail(Exit::cannot_create, predictions, ": exists already; --force overwrites it");
}

// --- Data ---------------------------------------------------------------------------------------

std::int64_t LabelOptions::choices() const {
  return model.task_head == kMultichoiceHead ? kChoicesOfRace : 1;
}

void LabelOptions::choose_head(const std::vector<std::string>& names, LabelKind kind,
                               std::int64_t numbers) {
  kind_ = kind;
  model.task_head = model.family == ModelFamily::bert ? kClassificationHead : kScoreHead;
  model.num_labels = kind == LabelKind::numbers ? numbers : std::ssize(names);
  bool named = false;
  for (std::size_t i = 0; i < names.size(); ++i) {
    named |= names[i] != std::to_string(i);
    model.label_names += (i == 0 ? "" : "\n") + names[i];
  }
  if (!named) model.label_names.clear();
}

// classify: the labels are those that the training data has, or, where nothing is learnt or a run
// goes on, the model's.
void LabelOptions::choose_head_of_files() {
  std::vector<LabelledFile> files;
  const bool has_head = stored && stored->model.has_task_head();
  for (const std::string& path : train_data) files.push_back({path, columns});
  if (files.empty() && !has_head)
    fail(Exit::usage, "--train-data: required, because nothing is loaded that has labels");
  if (files.empty()) files.push_back({valid_data.empty() ? "" : valid_data.front(), columns});
  if (files.front().path.empty()) {  // planned
    choose_head(stored->model.labels(), LabelKind::one, 0);
    return;
  }
  const LabelNames found = read_label_names(files);
  const bool takes = has_head && (train_data.empty() || run.checkpoint.goes_on_in_place());
  if (!takes || found.kind == LabelKind::numbers)
    choose_head(found.names, found.kind, found.numbers);
  else
    choose_head(stored->model.labels(), found.kind, 0);
}

LabelledSet LabelOptions::read(const std::string& path, const Log& log) const {
  const std::string_view name = verb.name;
  if (name == "race") return read_race(path);
  if (name == "mnli") return read_mnli(path, log);
  if (name == "qqp") return read_qqp(path, log);
  const bool numbers = kind_ == LabelKind::numbers;
  return read_labelled({path, columns},
                       {.kind = kind_,
                        .names = numbers ? std::vector<std::string>() : model.labels(),
                        .numbers = numbers ? model.num_labels : 0});
}

// As Megatron calls a set: what stands behind the task's name in its path.
std::string LabelOptions::name_of(const std::string& path) const {
  if (verb.is_classify) return path;
  std::string task = verb.name, name = path;
  std::ranges::transform(task, task.begin(), [](char c) { return static_cast<char>(c - 32); });
  if (const std::size_t at = path.rfind(task); at != path.npos)
    name = path.substr(at + task.size());
  const auto strip_of = [&](const char* characters) {
    const std::size_t begin = name.find_first_not_of(characters);
    name =
        begin == name.npos ? "" : name.substr(begin, name.find_last_not_of(characters) + 1 - begin);
  };
  if (task != "RACE") strip_of(".tsv");
  strip_of("/");
  std::ranges::replace(name, task == "RACE" ? '/' : '_', '-');
  return name.empty() ? path : name;
}

LabelTask::Options LabelOptions::task_options() const {
  LabelTask::Options options;
  options.sequences = {.seq_length = seq_length,
                       .is_bert = model.family == ModelFamily::bert,
                       .most_of_a = choices() > 1 ? kMostOfQuestion : 0,
                       .labels = model.num_labels,
                       .kind = kind_,
                       .choices = choices()};
  options.head_lr_mult = head_lr_mult;
  options.keep_last = keep_last;
  options.predictions = predictions;
  return options;
}

// A sample of choices is as many sequences; how long the run is, the samples say.
void LabelOptions::complete_for(std::int64_t samples) {
  BatchOptions& batch = run.batch;
  run.evaluation.skip_train = epochs == 0;
  if (run.evaluation.skip_train) run.checkpoint.load_optimizer = false;
  run.length.train_iters = epochs.value_or(0) > 0 ? *epochs : 0;  // as many as there are at least
  if (batch.micro_batch_size == 0) fail(Exit::usage, "--micro-batch-size: required");
  if (samples > 0) {
    run.ranks.complete();
    const EpochOptions order{.samples = samples,
                             .micro_batch_size = batch.micro_batch_size,
                             .ranks = run.ranks.sizes().dp,
                             .micro_batches = static_cast<int>(std::max<std::int64_t>(
                                 1, batch.global_batch_size.value_or(0) / batch.micro_batch_size /
                                        run.ranks.sizes().dp)),
                             .keep_last = keep_last};
    if (order.steps() == 0)
      fail(Exit::bad_config, "--train-data: ", samples, " samples, less than a step of ",
           order.micro_batch_size * order.ranks * order.micro_batches);
    run.length.train_iters = epochs.value_or(0) * order.steps();
  }
  batch.micro_batch_size *= choices();
  if (batch.global_batch_size) *batch.global_batch_size *= choices();
  complete(false);
}

void LabelOptions::choose_head_of_verb() {
  const std::string_view name = verb.name;
  if (name == "race") {
    choose_head({"0"}, LabelKind::one, 0);
    model.task_head = kMultichoiceHead;
  } else if (verb.is_classify) {
    choose_head_of_files();
  } else {
    choose_head(name == "mnli" ? mnli_labels() : qqp_labels(), LabelKind::one, 0);
  }
}

std::unique_ptr<LabelTask> LabelOptions::planned() {
  choose_head_of_verb();
  if (plan.search) {
    run.batch.micro_batch_size *= choices();
    if (run.batch.global_batch_size) *run.batch.global_batch_size *= choices();
  } else {
    complete_for(0);
  }
  return std::make_unique<LabelTask>(model, task_options());
}

std::unique_ptr<LabelTask> LabelOptions::open(const Log& log) {
  check_predictions();
  Words words = open_tokenizer();
  take_vocabulary(*words.tokenizer);
  choose_head_of_verb();
  LabelOptions(*this).complete_for(std::int64_t{1} << 30);  // what is contradictory is told now
  const auto sets_of = [&](const std::vector<std::string>& paths) {
    std::vector<LabelledSet> sets;
    for (const std::string& path : paths) sets.push_back(read(path, log));
    return sets;
  };
  std::vector<LabelledSet> training, validation = sets_of(valid_data);
  if (epochs.value_or(1) > 0) training = sets_of(train_data);
  std::vector<std::string> names = valid_data;
  if (validation.empty() && valid_split > 0)
    for (std::size_t i = 0; i < training.size(); ++i) {
      LabelledSet part = held_out(training[i], valid_split);
      if (part.samples() == 0) continue;
      names.push_back(train_data[i]);
      validation.push_back(std::move(part));
    }
  std::int64_t samples = 0;
  for (const LabelledSet& set : training) samples += set.samples();
  complete_for(samples);
  const LabelTask::Options options = task_options();
  LabelData opened{.tokenizer_options = words.options, .tokenizer = std::move(words.tokenizer)};
  const auto samples_of = [&](LabelledSet set) {
    return std::make_unique<LabelledSamples>(std::move(set), *opened.tokenizer, options.sequences);
  };
  if (!training.empty()) opened.training = samples_of(joined(std::move(training), "training"));
  for (std::size_t i = 0; i < validation.size(); ++i) {
    validation[i].name = name_of(names[i]);
    opened.tests.push_back(samples_of(validation[i]));
  }
  if (!validation.empty())
    opened.validation = samples_of(joined(std::move(validation), "validation"));
  return std::make_unique<LabelTask>(model, options, std::move(opened));
}

// --- Verbs --------------------------------------------------------------------------------------

void finetune_labels(CommandLine& cl, const LabelVerb& verb) {
  LabelOptions options(verb);
  const bool first = std::string_view(verb.name) == "race";
  cl.describe(verb.summary, first ? "" : "Takes the options of race.");
  cl.first_run({"--pretrained-checkpoint", "--train-data", "--valid-data", "--seq-length",
                "--micro-batch-size", "--epochs", "--lr", "--save"});
  options.add_to(cl);
  options.parse(cl);
  if (options.is_planned()) {
    options.take_vocabulary_to_plan();
    return print_plan(options.run, options.plan, cl.log(), [&] { return options.planned(); });
  }
  run_training(cl, options.run, options.check_layout, [&] { return options.open(cl.log()); });
}

void finetune_race(CommandLine& cl) {
  finetune_labels(cl, {.name = "race",
                       .summary = "Learn which of four answers to a question on a text is right.",
                       .files = "folders of RACE, whose .txt files have an article a line"});
}

void finetune_mnli(CommandLine& cl) {
  finetune_labels(
      cl, {.name = "mnli",
           .summary = "Learn whether a text follows from another, contradicts it, or neither.",
           .files = "files of MNLI, as GLUE has them"});
}

void finetune_qqp(CommandLine& cl) {
  finetune_labels(cl, {.name = "qqp",
                       .summary = "Learn whether two questions ask the same.",
                       .files = "files of QQP, as GLUE has them"});
}

void finetune_classify(CommandLine& cl) {
  finetune_labels(
      cl, {.name = "classify",
           .summary = "Learn the labels of texts, or numbers that are said of them.",
           .files = "JSON lines with \"text\", perhaps \"text_b\", and \"label\"; or see --columns",
           .is_classify = true});
}

}  // namespace mt
