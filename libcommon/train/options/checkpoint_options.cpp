#include "train/options/checkpoint_options.h"

#include <filesystem>

#include "base/command.h"
#include "ckpt/megatron_checkpoint.h"

namespace mt {

void CheckpointOptions::add_to(CommandLine& cl) {
  cl.section("Checkpoints");
  cl.option("--save", &save, "DIR", "where checkpoints go");
  cl.option("--ckpt-format", &format, "FORMAT",
            "Megatron's format of what is saved: torch_dist, or torch, a file of each rank of a "
            "model, which rank 0 makes of that; either goes on, whatever this says",
            one_of({"torch_dist", "torch"}));
  cl.flag("--force", &force,
          "replace checkpoints of another run in --save, or a file that is written besides, "
          "--plan-svg's image say, which are an error otherwise");
  cl.option("--save-interval,--persistent-save-interval", &save_interval, "N",
            "steps between checkpoints; default: only at the end; without --save it has no effect",
            at_least(1));
  cl.option("--save-retain-interval", &save_retain_interval, "N",
            "once a checkpoint is complete, delete those before it but for multiples of N",
            at_least(1));
  cl.option(keep_option, &keep_last, "N",
            "once a checkpoint is complete, delete all but the N newest (and multiples of "
            "--save-retain-interval)",
            at_least(1));
  cl.flag("--async-save", &async_save,
          "copy what is saved, and write it while training goes on; the next save, and the end, "
          "wait for it");
  cl.off_switch("--no-ckpt-fully-parallel-save,--disable-ckpt-fully-parallel-save",
                &fully_parallel_save, "of the ranks with the same weights, one writes them all");
  cl.option("--non-persistent-save-interval", &non_persistent_save_interval, "N",
            "steps between checkpoints of which each replaces the one before", at_least(1));
  cl.option("--non-persistent-ckpt-type", &non_persistent_ckpt_type, "TYPE",
            "global: write them, and go on from one that is not older than what --load finds",
            one_of({"global"}));
  cl.option("--non-persistent-global-ckpt-dir", &non_persistent_global_ckpt_dir, "DIR",
            "where they are; default non_persistent in the folder of --save, and of --load");
  cl.option("--load", &load, "DIR",
            "folder of checkpoints to go on from the latest, or of one; or a model's folder of "
            "Hugging Face's or Meta's, or a GGUF file, for its weights; settings of the model and "
            "--seq-length that are not given are its own; where nothing is, a new run begins");
  cl.option("--ckpt-convert-format", &convert_format, "FORMAT",
            "write what --load has in this format, for this layout, and end",
            one_of({"torch_dist", "torch"}));
  cl.option("--ckpt-convert-save", &convert_save, "DIR",
            "where to, in a folder DIR/FORMAT; see mt-convert(1)");
  cl.option("--ckpt-step", &ckpt_step, "N", "load this iteration, not the latest", at_least(1));
  cl.flag("--finetune", &finetune,
          "load only the weights: a new run, from iteration 0 and the first sample; base and "
          "scaling of rotary positions and windows may be others than the checkpoint's");
  cl.flag(
      "--resize-embeddings", &resize_embeddings,
      "of a new run from weights the tokenizer may have words behind those of the weights' own: "
      "their rows begin as the mean of the others");
  cl.flag("--use-checkpoint-args", &use_args,
          "take settings of the model and --seq-length from the checkpoint, also where they are "
          "given");
  cl.option("--pretrained-checkpoint", &pretrained_checkpoint, "DIR",
            "as --finetune from there, while there is no checkpoint in --load");
  cl.flag("--exit-on-missing-checkpoint", &exit_on_missing_checkpoint,
          "a --load folder without a checkpoint ends the program");
  cl.off_switch("--no-load-optim", &load_optimizer,
                "start with a fresh optimizer and its schedule");
  cl.off_switch("--no-save-optim", &save_optimizer, "checkpoints without the optimizer's state");
}

void CheckpointOptions::complete(bool draws) const {
  const auto needs = [](bool given, const char* option, bool met, const char* other) {
    if (given && !met) fail(Exit::usage, option, ": needs ", other);
  };
  const bool saves = !save.empty(), loads = !load.empty();
  needs(force, "--force", saves || draws || writes_further, "--save, or --plan-svg");
  needs(ckpt_step.has_value(), "--ckpt-step", loads, "--load");
  needs(finetune, "--finetune", loads, "--load");
  needs(resize_embeddings, "--resize-embeddings", loads || !pretrained_checkpoint.empty(),
        "--load");
  needs(use_args, "--use-checkpoint-args", loads || !pretrained_checkpoint.empty(), "--load");
  needs(exit_on_missing_checkpoint, "--exit-on-missing-checkpoint", loads, "--load");
  const bool global = !non_persistent_ckpt_type.empty();
  const bool passing = non_persistent_save_interval.has_value();
  needs(passing, "--non-persistent-save-interval", saves, "--save");
  needs(passing, "--non-persistent-save-interval", global, "--non-persistent-ckpt-type global");
  needs(!non_persistent_global_ckpt_dir.empty(), "--non-persistent-global-ckpt-dir", global,
        "--non-persistent-ckpt-type global");
  if (async_save && format != "torch_dist")
    fail(Exit::bad_config, "--async-save: not with --ckpt-format ", format);
  if (save_retain_interval && save_interval && *save_retain_interval % *save_interval != 0)
    fail(Exit::bad_config, "--save-retain-interval ", *save_retain_interval,
         ": not a multiple of --save-interval ", *save_interval);
}

bool CheckpointOptions::goes_on_in_place() const {
  std::error_code error;
  return !save.empty() && !finetune &&
         (load == save || std::filesystem::equivalent(load, save, error));
}

void CheckpointOptions::go_on_after_failures(int attempt) {
  if (goes_on_in_place() && attempt > 0) ckpt_step.reset();
  if (save.empty() || goes_on_in_place()) return;
  auto saved = find_checkpoint(save);
  if (!saved && !non_persistent_ckpt_type.empty())
    saved = find_checkpoint(non_persistent_folder(save));
  if (!saved) return;
  if (attempt == 0)
    fail(Exit::bad_config, "--save ", save, ": holds iteration ", saved->iteration,
         " of another run, from which ranks that are started again would go on; add --load ", save,
         ", or save elsewhere", force ? "; --force does not go with --max-restarts" : "");
  load = save;
  finetune = false;
  pretrained_checkpoint.clear();
  ckpt_step.reset();
}

}  // namespace mt
