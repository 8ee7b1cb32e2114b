// mt-pretrain: train a GPT from a token file.
#include <cstdio>

#include "base/command.h"
#include "data/tokenizer_source.h"
#include "train/plan.h"
#include "train/plot.h"
#include "train/trainer.h"

// Reads of the data, if there is any yet, only how large its vocabulary is.
static void print_plan(mt::TrainOptions& options) {
  const mt::DataOptions& data = options.data;
  if (options.model.vocab_size == 0 && !(data.data_path.empty() && data.tokenizer.type.empty()))
    options.take_vocabulary(*mt::dataset_tokenizer(data.data_path, data.tokenizer));
  options.complete();
  const mt::Plan plan = mt::make_plan(options);
  std::fputs((options.report.json ? mt::plan_json(plan) : mt::plan_text(plan)).c_str(), stdout);
}

static void run_plot(mt::CommandLine& cl) {
  mt::PlotOptions options;
  cl.describe("draw the curves of training runs, from their run logs");
  options.add_to(cl);
  cl.parse();
  mt::plot(options, cl.color(1));
}

static void run(mt::CommandLine& cl) {
  if (cl.verb({{"plot", "draw the curves of training runs"}}) == "plot") return run_plot(cl);
  mt::TrainOptions options;
  cl.describe("Train a GPT-2 or Llama style language model from a token file.");
  options.add_to(cl);
  cl.before_print([&] {  // as in pretrain_gpt.py
    if (cl.given("--vocab-file") || cl.given("--merge-file"))
      cl.fallback("--tokenizer-type", {"GPT2BPETokenizer"}, "default with --vocab-file");
  });
  cl.parse();
  if (options.plan) return print_plan(options);
  if (options.data.data_path.empty()) mt::fail(mt::Exit::usage, "--data-path: required");
  mt::Signals signals;
  mt::TrainData data(options.data);
  options.take_vocabulary(data.tokenizer());
  options.complete();
  mt::JsonWriter json;
  cl.write_options(json);
  mt::train(options, data, signals, cl.log(), json.text());
}

int main(int argc, char** argv) { return mt::run_command("mt-pretrain", argc, argv, run); }
