// The verb sft.
#include "base/command.h"
#include "post/supervised/supervised_finetuning.h"
#include "post/verbs.h"
#include "train/run/training_command.h"

namespace mt {

void finetune_sft(CommandLine& cl) {
  SftOptions options;
  cl.describe("Learn conversations, prompts with their completions, or texts.");
  cl.first_run({"--load", "--train-data", "--seq-length", "--global-batch-size", "--epochs", "--lr",
                "--lora-rank", "--save"});
  options.add_to(cl);
  options.parse(cl);
  options.choose_type();
  if (options.is_planned()) {
    options.take_vocabulary_to_plan();
    return print_plan(options.run, options.plan, cl.log(), [&] {
      options.plan.search ? options.complete_adapters() : options.complete();
      return std::make_unique<SupervisedFinetuning>(options);
    });
  }
  run_training(cl, options.run, options.check_layout, [&] { return open_sft(options, cl.log()); });
}

}  // namespace mt
