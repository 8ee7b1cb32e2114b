#include "train/options/report_options.h"

#include <utility>

namespace mt {

static void add_log(ReportOptions& o, CommandLine& cl) {
  cl.option("--log-interval", &o.log_interval, "N", "steps between log lines", at_least(1));
  cl.flag("--log-throughput", &o.log_throughput,
          "TFLOP/s of a rank in log lines, by Megatron-LM's formula");
  cl.option("--peak-tflops", &o.peak_tflops, "F",
            "TFLOP/s that a rank's device can do at most: log lines and the run log say which part "
            "of it the model's FLOPs are (MFU)",
            greater_than(0));
  cl.flag("--log-params-norm", &o.log_params_norm, "the norm of the weights in log lines");
  cl.option("--timing-log-level", &o.timing_log_level, "N",
            "time the parts of a step; 1: the large ones, 2: all; a GPU's steps are timed whole",
            between(0, 2));
  cl.option("--timing-log-option", &o.timing_log_option, "HOW",
            "times over the ranks: max, minmax or all", one_of({"max", "minmax", "all"}));
  cl.flag("--log-progress", &o.log_progress,
          "a line in progress.txt of --save at every checkpoint");
  cl.option("--run-log", &o.run_log, "FILE",
            "JSON lines of the run; default run.jsonl in the --save folder");
  cl.flag("--json", &o.json, "the run's JSON lines on stdout too");
}

static void add_tensorboard(ReportOptions& o, CommandLine& cl) {
  cl.section("TensorBoard");
  cl.option("--tensorboard-dir", &o.tensorboard_dir, "DIR", "where event files go");
  cl.option("--tensorboard-log-interval", &o.tensorboard_log_interval, "N",
            "steps between points of a curve", at_least(1));
  cl.option("--tensorboard-queue-size", &o.tensorboard_queue_size, "N",
            "points that may wait to be written; two minutes at most", at_least(1));
  cl.flag("--log-timers-to-tensorboard", &o.timers_to_tensorboard,
          "curves of the times of a step and its parts");
  cl.off_switch("--no-log-loss-scale-to-tensorboard,--disable-log-loss-scale-to-tensorboard",
                &o.loss_scale_to_tensorboard, "no curve of the loss scale");
  cl.flag("--log-validation-ppl-to-tensorboard", &o.validation_ppl_to_tensorboard,
          "a curve of the validation perplexity");
  cl.flag("--log-memory-to-tensorboard", &o.memory_to_tensorboard,
          "curves of the memory that a rank has allocated and that the process holds");
  cl.flag("--log-world-size-to-tensorboard", &o.world_size_to_tensorboard,
          "a curve of the number of ranks");
}

static void add_wandb(ReportOptions& o, CommandLine& cl) {
  cl.section("Weights & Biases");
  cl.option(
      "--wandb-project", &o.wandb_project, "NAME",
      "keep the run's curves, all its options and the host's name in files as the client does "
      "without a connection, of which `wandb sync` makes a run of this project, of each "
      "start one; \"\": do not.  Points come every --tensorboard-log-interval steps");
  cl.option("--wandb-exp-name", &o.wandb_exp_name, "NAME", "the run's name, which it needs");
  cl.option("--wandb-entity", &o.wandb_entity, "NAME",
            "whose project it is; default who runs `wandb sync`");
  cl.option("--wandb-save-dir", &o.wandb_save_dir, "DIR",
            "where the files go, in DIR/wandb; default wandb in the --save folder");
}

void ReportOptions::check_wandb(bool saves) const {
  if (!wandb_project) {
    for (const auto& [name, value] : {std::pair{"--wandb-exp-name", &wandb_exp_name},
                                      std::pair{"--wandb-entity", &wandb_entity},
                                      std::pair{"--wandb-save-dir", &wandb_save_dir}})
      if (!value->empty()) fail(Exit::usage, name, ": needs --wandb-project");
    return;
  }
  if (!wandb_is_on()) return;
  if (wandb_exp_name.empty()) fail(Exit::usage, "--wandb-project: needs --wandb-exp-name");
  if (wandb_save_dir.empty() && !saves)
    fail(Exit::usage, "--wandb-project: needs --wandb-save-dir or --save");
}

static void add_profile(ReportOptions& o, CommandLine& cl) {
  cl.section("Profile");
  cl.flag(
      "--profile", &o.profile,
      "print where the time of some steps went: for each family of operations the time, FLOP/s "
      "and bytes/s, and the part of what this machine reaches (more than all of it where data "
      "stays in a cache); a GPU's steps are meanwhile not captured as graphs; nsys --capture-range "
      "cudaProfilerApi sees the same steps");
  cl.option("--profile-step-start", &o.profile_step_start, "N", "steps before these", at_least(0));
  cl.option("--profile-step-end", &o.profile_step_end, "N", "the last of them", at_least(1));
  cl.option("--profile-ranks", &o.profile_ranks, "RANK", "whose steps", at_least(0));
}

void ReportOptions::check_profile(std::optional<std::int64_t> steps, int ranks) const {
  if (!profile) return;
  if (profile_step_end <= profile_step_start)
    fail(Exit::bad_config, "--profile-step-end ", profile_step_end,
         ": expected more than --profile-step-start ", profile_step_start);
  if (steps && profile_step_start >= *steps)
    fail(Exit::bad_config, "--profile-step-start ", profile_step_start,
         ": the run ends after step ", *steps);
  for (const std::int64_t rank : profile_ranks)
    if (rank >= ranks)
      fail(Exit::bad_config, "--profile-ranks ", rank, ": there are ", ranks, " ranks, from 0");
}

void ReportOptions::add_to(CommandLine& cl) {
  cl.section("Output");
  add_log(*this, cl);
  add_profile(*this, cl);
  add_tensorboard(*this, cl);
  add_wandb(*this, cl);
}

}  // namespace mt
