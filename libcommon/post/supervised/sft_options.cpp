#include "post/supervised/sft_options.h"

#include "base/command.h"
#include "post/data/packing.h"

namespace mt {

void SftOptions::add_data_to(CommandLine& cl) {
  cl.section("Data");
  examples.add_to(cl);
  cl.option("--packing", &packing, "HOW",
            "which texts share a sample; none: each has one of its own; no text sees another, but "
            "of wrapped, which cuts one text of all",
            one_of(packing_names()));
  cl.option("--overlong", &overlong, "WHAT",
            "a text of more tokens than a sample has: drop it, cut it, or split it",
            one_of({"drop", "cut", "split"}));
  data.add_to(cl);
}

void SftOptions::add_to(CommandLine& cl) {
  add_data_to(cl);
  cl.section("Objective");
  cl.option("--loss", &loss, "KIND",
            "what becomes less: nll, or dft, in which what the model holds for unlikely counts for "
            "less",
            one_of({"nll", "dft"}));
  offers_adapters = true;
  add_run_to(cl);
}

void SftOptions::complete() {
  if (model_type != "gpt")
    fail(Exit::bad_config, "--model-type ", model_type, ": sft trains models of type gpt");
  encoder.check_unused("--model-type gpt");
  if (loss == "dft" && model.label_smoothing > 0)
    fail(Exit::bad_config, "--label-smoothing ", model.label_smoothing, ": not with --loss dft");
  FinetuneOptions::complete(true);
}

}  // namespace mt
