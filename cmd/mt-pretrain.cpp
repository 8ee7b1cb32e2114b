// mt-pretrain: train a GPT, a BERT or a T5 from token files, a Vision Transformer from images, or a
// LLaVA from images with texts.
#include <charconv>
#include <cstdio>
#include <iostream>
#include <utility>

#include "base/command.h"
#include "cmd/programs.h"
#include "formats/convert.h"
#include "post/data/packing.h"
#include "post/supervised/multimodal_pretraining.h"
#include "retro/training_project.h"
#include "train/check/self_test.h"
#include "train/options/pretrain_options.h"
#include "train/report/plot.h"
#include "train/run/checkpoint.h"
#include "train/run/dino_pretraining.h"
#include "train/run/foreign_model.h"
#include "train/run/image_pretraining.h"
#include "train/run/pretraining.h"
#include "train/run/show_batch.h"
#include "train/run/training_command.h"

// The task of a run, with its data.
static std::unique_ptr<mt::Task> open_task(mt::PretrainOptions& options, const mt::Log& log) {
  if (options.is_vit() && options.vision.is_dino()) return mt::open_dino(options);
  if (options.is_vit()) return mt::open_images(options);
  if (options.is_multimodal()) return mt::open_multimodal(options, log);
  if (options.data.sources.mock_data && options.data.sources.split)
    log.warn("--split: has no effect with --mock-data, whose splits are alike");
  mt::open_neighbors(options);
  return std::make_unique<mt::Pretraining>(mt::open_pretraining(options));
}

// Reads of the data, if there is any yet, only how large its vocabulary is.
static void print_plan(mt::PretrainOptions& options, const mt::Log& log) {
  if (options.names_a_vocabulary())
    options.take_vocabulary(*mt::run_tokenizer(options.data).tokenizer);
  else
    options.take_stored_vocabulary();
  mt::print_plan(options.run, options.plan, log, [&]() -> std::unique_ptr<mt::Task> {
    if (options.is_multimodal()) return mt::plan_multimodal(options);
    if (options.plan.search)
      options.check_type();
    else
      options.complete();
    if (options.is_vit() && options.vision.is_dino())
      return std::make_unique<mt::DinoPretraining>(options.model, options.data,
                                                   options.vision.dino);
    if (options.is_vit())
      return std::make_unique<mt::ImagePretraining>(options.model, options.data,
                                                    options.vision.mask());
    return std::make_unique<mt::Pretraining>(options.model, options.data);
  });
}

// What is done instead of the run is one thing.
static void check_one_task(const mt::PretrainOptions& options) {
  const std::pair<bool, const char*> tasks[] = {
      {options.selftest, "--selftest"},
      {options.plan.wanted, "--plan"},
      {options.plan.search.has_value(), "--plan-search"},
      {options.check_layout, "--check-layout"},
      {options.run.checkpoint.converts(), "--ckpt-convert-format"}};
  const char* first = nullptr;
  for (const auto& [asked, name] : tasks) {
    if (asked && first != nullptr)
      mt::fail(mt::Exit::usage, first, " and ", name, " exclude each other");
    if (asked) first = name;
  }
}

static void run_self_test(const mt::RunOptions& options) {
  if (options.compute.device_name == "cpu")
    mt::fail(mt::Exit::usage, "--selftest: tests a GPU, and --device cpu takes none");
  const std::vector<mt::Comparison> comparisons = mt::self_test(mt::Device::cuda);
  std::fputs(
      (options.report.json ? mt::self_test_json(comparisons) : mt::self_test_text(comparisons))
          .c_str(),
      stdout);
  mt::check_self_test(comparisons);
}

static void run_plot(mt::CommandLine& cl) {
  mt::PlotOptions options;
  cl.describe("draw the curves of training runs, from their run logs");
  options.add_to(cl);
  cl.parse();
  mt::plot(options, cl.color(1));
}

// The options of a run, whatever is done with it, if anything.
static void parse_run(mt::CommandLine& cl, mt::PretrainOptions& options, bool runs = true) {
  std::vector<std::string> packings = mt::packing_names();
  std::erase_if(packings, [](const std::string& name) { return mt::cuts_texts(name); });
  options.add_to(cl, std::move(packings));
  cl.before_print([&] {  // as in pretrain_gpt.py and pretrain_bert.py
    options.take_stored(cl, options.run.checkpoint, options.plan);
    mt::take_project(cl, options);
    if (options.is_vit()) return options.vision.add_fallbacks(cl);
    if (options.is_multimodal()) return options.multimodal.add_fallbacks(cl);
    const bool masked = options.model_type != "gpt";
    if (cl.given("--vocab-file") || cl.given("--merge-file"))
      cl.fallback("--tokenizer-type", {masked ? "BertWordPieceLowerCase" : "GPT2BPETokenizer"},
                  "default with --vocab-file");
  });
  cl.parse();
  if (options.is_vit()) options.vision.check_given(cl, options.data, options.model);
  if (options.is_multimodal()) options.multimodal.check_given(cl);
  options.take_yarn(cl, options.run.checkpoint.use_args);
  options.choose_type();
  mt::find_ranks(cl, options.run, runs && !options.plan.wanted && !options.plan.search);
  options.data.tokenizer.vocab_size = options.model.vocab_size;
  options.data.threads = options.run.ranks.threads;
}

static void run_show_batch(mt::CommandLine& cl) {
  mt::PretrainOptions options;
  std::string step;
  cl.describe("print which documents a step of a run reads, with their text",
              "Takes the options of the run.");
  cl.positional("STEP", &step, "the step, from 1");
  parse_run(cl, options, false);
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(step.data(), step.data() + step.size(), number);
  if (error != std::errc() || stop != step.data() + step.size())
    mt::fail(mt::Exit::usage, "STEP ", step, ": expected an integer");
  const std::unique_ptr<mt::Task> task = open_task(options, cl.log());
  mt::show_batch(options.run, *task, number, cl.log(), std::cout);
}

// The checkpoint in another format, with all that the run would have loaded of it.
static void convert(const mt::RunOptions& options, const mt::Log& log) {
  const mt::CheckpointOptions& from = options.checkpoint;
  const mt::RankOptions& ranks = options.ranks;
  const auto needs = [](const char* flag, const std::string& value) {
    if (value.empty())
      mt::fail(mt::Exit::usage, flag, ": required, where a checkpoint is converted");
  };
  needs("--load", from.load);
  needs("--ckpt-convert-format", from.convert_format);
  needs("--ckpt-convert-save", from.convert_save);
  if (!mt::find_foreign_model(from.load, from.ckpt_step).empty())
    mt::fail(mt::Exit::usage, "--ckpt-convert-format: ", from.load,
             " is a model of others', not a checkpoint of Megatron's; mt-convert ", from.load,
             " OUTPUT --ckpt-format ", from.convert_format, " makes one of it");
  if (from.finetune)
    mt::fail(mt::Exit::usage, "--finetune: a converted checkpoint keeps its iteration");
  if (ranks.process.rank > 0) return;  // no rank needs another
  mt::ConvertOptions conversion = mt::conversion_for(ranks);
  conversion.load = from.load;
  conversion.save = from.convert_save + "/" + from.convert_format;
  conversion.loader = "core";
  conversion.ckpt_format = from.convert_format;
  conversion.source.iteration = from.ckpt_step;
  conversion.with_optimizer = from.load_optimizer && from.save_optimizer;
  conversion.complete();
  const mt::ConvertReport report = mt::convert_checkpoint(conversion, log, [] {});
  log.event("converted", {{"from", report.from}, {"to", report.to}, {"tensors", report.rows}});
}

static void run(mt::CommandLine& cl) {
  const std::string verb = cl.verb({{"plot", "draw the curves of training runs"},
                                    {"show-batch", "print which documents a step reads"}});
  if (verb == "plot") return run_plot(cl);
  if (verb == "show-batch") return run_show_batch(cl);
  mt::PretrainOptions options;
  cl.describe(
      "Train a GPT, a Llama, a BERT or a T5 from token files, or a ViT or a LLaVA from images.");
  cl.first_run({"--num-layers", "--hidden-size", "--num-attention-heads", "--seq-length",
                "--micro-batch-size", "--global-batch-size", "--train-iters", "--lr", "--data-path",
                "--save"});
  parse_run(cl, options);
  check_one_task(options);
  if (options.selftest) return run_self_test(options.run);
  if (options.plan.wanted || options.plan.search) return print_plan(options, cl.log());
  if (options.run.checkpoint.converts()) return convert(options.run, cl.log());
  mt::run_training(cl, options.run, options.check_layout,
                   [&] { return open_task(options, cl.log()); });
}

int mt_pretrain(int argc, char** argv) { return mt::run_command("mt-pretrain", argc, argv, run); }
