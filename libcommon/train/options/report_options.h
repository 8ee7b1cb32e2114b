// What a run says of itself, and where.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/command.h"

namespace mt {

struct ReportOptions {
  std::int64_t log_interval = 100;
  std::string run_log = {};
  std::string results = {};  // see ResultsFile; "": none.  The program sets it
  bool json = false;
  bool log_throughput = false, log_params_norm = false, log_progress = false;
  std::optional<double> peak_tflops = {};  // of a rank's device
  int timing_log_level = 0;
  std::string timing_log_option = "minmax";
  std::string tensorboard_dir = {};
  std::int64_t tensorboard_log_interval = 1, tensorboard_queue_size = 1000;
  bool timers_to_tensorboard = false, loss_scale_to_tensorboard = true;
  bool validation_ppl_to_tensorboard = false, memory_to_tensorboard = false;
  bool world_size_to_tensorboard = false;
  std::optional<std::string> wandb_project = {};  // "": none, as if it were not given
  std::string wandb_exp_name = {}, wandb_entity = {}, wandb_save_dir = {};
  bool profile = false;
  std::int64_t profile_step_start = 10, profile_step_end = 12;  // steps done before, and after
  std::vector<std::int64_t> profile_ranks = {0};

  void add_to(CommandLine& cl);
  bool wandb_is_on() const { return wandb_project && !wandb_project->empty(); }
  // Exit::usage where a run has no name, or no place; `saves` is whether there is --save.
  void check_wandb(bool saves) const;
  // Exit::bad_config where --profile names no step of so many, or no rank.
  void check_profile(std::optional<std::int64_t> steps, int ranks) const;
};

}  // namespace mt
