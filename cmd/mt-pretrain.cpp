// mt-pretrain: train a GPT from token files.
#include <cstdio>

#include "base/command.h"
#include "train/plan.h"
#include "train/plot.h"
#include "train/trainer.h"

// Reads of the data, if there is any yet, only how large its vocabulary is.
static void print_plan(mt::TrainOptions& options) {
  if (options.names_a_vocabulary())
    options.take_vocabulary(*mt::run_tokenizer(options.data).tokenizer);
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
  cl.describe("Train a GPT-2 or Llama style language model from token files.");
  options.add_to(cl);
  cl.before_print([&] {  // as in pretrain_gpt.py
    if (cl.given("--vocab-file") || cl.given("--merge-file"))
      cl.fallback("--tokenizer-type", {"GPT2BPETokenizer"}, "default with --vocab-file");
  });
  cl.parse();
  options.data.tokenizer.vocab_size = options.model.vocab_size;
  options.data.threads = options.threads;
  if (options.plan) return print_plan(options);
  mt::Signals signals;
  mt::TrainData data(options.data);
  options.take_vocabulary(data.tokenizer());
  options.complete();
  mt::JsonWriter json;
  cl.write_options(json);
  mt::train(options, data, signals, cl.log(), json.text());
}

int main(int argc, char** argv) { return mt::run_command("mt-pretrain", argc, argv, run); }
