// mt-pretrain: train a GPT from token files.
#include <charconv>
#include <cstdio>
#include <iostream>
#include <utility>

#include "base/command.h"
#include "comm/supervisor.h"
#include "formats/convert.h"
#include "train/check/layout_check.h"
#include "train/check/self_test.h"
#include "train/plan/plan_search.h"
#include "train/report/plot.h"
#include "train/run/show_batch.h"
#include "train/run/trainer.h"

// Reads of the data, if there is any yet, only how large its vocabulary is.
static void print_plan(mt::TrainOptions& options) {
  if (options.names_a_vocabulary())
    options.take_vocabulary(*mt::run_tokenizer(options.data).tokenizer);
  const auto print = [](const std::string& text) { std::fputs(text.c_str(), stdout); };
  mt::measure_machine(options.machine, options.compute_dtype());
  if (options.plan_search) {
    const mt::PlanSearch search = mt::search_plans(options, *options.plan_search);
    return print(options.report.json ? mt::search_json(search) : mt::search_text(search));
  }
  options.complete();
  const mt::Plan plan = mt::make_plan(options);
  print(options.report.json ? mt::plan_json(plan) : mt::plan_text(plan, mt::terminal_columns()));
  if (!options.plan_svg.empty()) mt::write_plan_svg(plan, options.plan_svg);
}

// What is done instead of the run is one thing.
static void check_one_task(const mt::TrainOptions& options) {
  const std::pair<bool, const char*> tasks[] = {
      {options.selftest, "--selftest"},
      {options.plan, "--plan"},
      {options.plan_search.has_value(), "--plan-search"},
      {options.check_layout, "--check-layout"},
      {!options.ckpt_convert_format.empty() || !options.ckpt_convert_save.empty(),
       "--ckpt-convert-format"}};
  const char* first = nullptr;
  for (const auto& [asked, name] : tasks) {
    if (asked && first != nullptr)
      mt::fail(mt::Exit::usage, first, " and ", name, " exclude each other");
    if (asked) first = name;
  }
}

static void run_self_test(const mt::TrainOptions& options) {
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
static void parse_run(mt::CommandLine& cl, mt::TrainOptions& options, bool runs = true) {
  options.add_to(cl);
  cl.before_print([&] {  // as in pretrain_gpt.py
    if (cl.given("--vocab-file") || cl.given("--merge-file"))
      cl.fallback("--tokenizer-type", {"GPT2BPETokenizer"}, "default with --vocab-file");
  });
  cl.parse();
  options.launch.runs = runs && !options.plan && !options.plan_search;
  options.take_process(mt::find_launch(options.launch));
  options.data.tokenizer.vocab_size = options.model.vocab_size;
  options.data.threads = options.threads;
}

static void run_show_batch(mt::CommandLine& cl) {
  mt::TrainOptions options;
  std::string step;
  cl.describe("print which documents a step of a run reads, with their text",
              "Takes the options of the run.");
  cl.positional("STEP", &step, "the step, from 1");
  parse_run(cl, options, false);
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(step.data(), step.data() + step.size(), number);
  if (error != std::errc() || stop != step.data() + step.size())
    mt::fail(mt::Exit::usage, "STEP ", step, ": expected an integer");
  mt::TrainData data(options.data);
  options.take_vocabulary(data.tokenizer());
  options.complete();
  mt::show_batch(options, data, number, cl.log(), std::cout);
}

// The checkpoint in another format, with all that the run would have loaded of it.
static void convert(const mt::TrainOptions& options, const mt::Log& log) {
  const auto needs = [](const char* flag, const std::string& value) {
    if (value.empty())
      mt::fail(mt::Exit::usage, flag, ": required, where a checkpoint is converted");
  };
  needs("--load", options.load);
  needs("--ckpt-convert-format", options.ckpt_convert_format);
  needs("--ckpt-convert-save", options.ckpt_convert_save);
  if (options.finetune)
    mt::fail(mt::Exit::usage, "--finetune: a converted checkpoint keeps its iteration");
  if (options.process.rank > 0) return;  // no rank needs another
  mt::ConvertOptions conversion;
  conversion.load = options.load;
  conversion.save = options.ckpt_convert_save + "/" + options.ckpt_convert_format;
  conversion.loader = "core";
  conversion.ckpt_format = options.ckpt_convert_format;
  conversion.source.iteration = options.ckpt_step;
  conversion.with_optimizer = options.load_optimizer && options.save_optimizer;
  conversion.target_tensor_parallel = options.parallel.tensor_model_parallel_size;
  conversion.target_pipeline_parallel = options.parallel.pipeline_model_parallel_size;
  conversion.pipeline = options.pipeline;
  conversion.threads = options.threads;
  conversion.force = true;  // as a save, it replaces an iteration of the same number
  conversion.complete();
  const mt::ConvertReport report = mt::convert_checkpoint(conversion, log, [] {});
  log.event("converted", {{"from", report.from}, {"to", report.to}, {"tensors", report.rows}});
}

static void run(mt::CommandLine& cl) {
  const std::string verb = cl.verb({{"plot", "draw the curves of training runs"},
                                    {"show-batch", "print which documents a step reads"}});
  if (verb == "plot") return run_plot(cl);
  if (verb == "show-batch") return run_show_batch(cl);
  mt::TrainOptions options;
  cl.describe("Train a GPT-2 or Llama style language model from token files.");
  parse_run(cl, options);
  check_one_task(options);
  if (options.selftest) return run_self_test(options);
  if (options.plan || options.plan_search) return print_plan(options);
  if (!options.ckpt_convert_format.empty() || !options.ckpt_convert_save.empty())
    return convert(options, cl.log());
  mt::Signals signals;
  mt::TrainData data(options.data);
  options.take_vocabulary(data.tokenizer());
  options.complete();
  if (options.check_layout) return mt::check_layout(options, data, cl.log(), std::cout);
  if (options.process.must_start) {
    options.check_gpus();
    return mt::supervise(options.process,
                         {.arguments = cl.arguments(),
                          .max_restarts = options.launch.max_restarts,
                          .timeout = options.launch.timeout()},
                         signals, cl.log());
  }
  mt::JsonWriter json;
  cl.write_options(json);
  mt::train(options, data, signals, cl.log(), json.text());
}

int main(int argc, char** argv) { return mt::run_command("mt-pretrain", argc, argv, run); }
