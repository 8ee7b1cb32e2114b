// TrainOptions: everything that mt-pretrain can be told.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "base/command.h"
#include "base/threads.h"
#include "comm/launch.h"
#include "data/samples/batch_schedule.h"
#include "data/samples/train_data.h"
#include "model/config/model_config.h"
#include "optim/optimizer_options.h"
#include "optim/param_schedule.h"
#include "tensor/device_options.h"
#include "train/check/result_checks.h"
#include "train/options/parallel_options.h"
#include "train/options/report_options.h"
#include "train/plan/machine.h"
#include "train/run/pipeline_layout.h"

namespace mt {

struct TrainOptions {
  ModelConfig model;
  DataOptions data;
  OptimizerOptions optimizer;
  ParamSchedule schedule;
  std::int64_t micro_batch_size = 0;
  std::optional<std::int64_t> global_batch_size;  // default: micro-batch size x data-parallel size
  std::vector<std::int64_t> rampup_batch_size;    // start, increment, samples
  std::string step_batch_size_schedule;           // instead of both
  bool decrease_batch_size_if_needed = false;     // to what the ranks can divide
  bool calculate_per_token_loss = false;
  std::int64_t train_iters = 0, train_samples = 0;  // one is given; complete() derives train_iters
  std::int64_t eval_iters = 100, eval_interval = 1000;
  bool skip_train = false;
  std::optional<std::int64_t> exit_interval;
  std::optional<double> exit_duration_in_mins;
  DeviceOptions compute;
  bool cuda_graphs = true;
  std::uint64_t seed = 1234;
  int ranks = 1, threads = 0;
  LaunchOptions launch;
  ParallelOptions parallel;
  PipelineOptions pipeline;
  std::string save, load;
  std::string ckpt_convert_format, ckpt_convert_save;  // instead of the run: see mt-pretrain.cpp
  std::optional<std::int64_t> save_interval, non_persistent_save_interval;
  std::string non_persistent_ckpt_type;        // "global", or "": such checkpoints are not loaded
  std::string non_persistent_global_ckpt_dir;  // see non_persistent_folder()
  bool load_optimizer = true, save_optimizer = true;
  CheckOptions checks;
  ReportOptions report;
  bool finetune = false, exit_on_missing_checkpoint = false;
  std::string pretrained_checkpoint;
  std::optional<std::int64_t> ckpt_step, save_retain_interval, keep_last;
  bool async_save = false, fully_parallel_save = true;
  bool check_layout = false;  // with two steps, instead of the run
  bool plan = false, selftest = false;
  std::string plan_svg;            // where the plan's schedule is drawn
  std::optional<int> plan_search;  // GPUs for which layouts are proposed
  MachineOptions machine;          // that the plan supposes

  void add_to(CommandLine& cl);
  // Whether the vocabulary comes from the data or the tokenizer, and not from --vocab-size alone.
  bool names_a_vocabulary() const;
  // The model's vocabulary is the tokenizer's unless --vocab-size says otherwise, which must not be
  // less.
  void take_vocabulary(const Tokenizer& tokenizer);
  // The ranks are processes, of which this is one, or this starts those of its host; or, where
  // there is but one, they are --ranks threads.
  void take_process(const Launch& launched);
  // Checks what must fit together and derives what was not given.
  void complete();

  // Where the checkpoint is that each of its kind replaces, for lasting ones in `checkpoints`.
  std::string non_persistent_folder(const std::string& checkpoints) const {
    return non_persistent_global_ckpt_dir.empty() ? checkpoints + "/non_persistent"
                                                  : non_persistent_global_ckpt_dir;
  }
  DType compute_dtype() const { return compute.compute_dtype(); }
  Device device() const { return compute.device(); }
  // Whether a plan says how long a step takes.
  bool plans_times() const { return device() == Device::cuda && size_of(compute_dtype()) == 2; }
  bool has_processes() const { return process.size > 1; }
  // Worker threads of one rank: an equal share of what all of a host may use.
  int threads_of_rank() const {
    return std::max(1, worker_threads(threads) / (has_processes() ? process.local_size : ranks));
  }
  ParallelSizes parallel_sizes() const { return parallel.sizes(ranks); }

  // A step's sequences over all ranks: what the schedule asks for, and what the ranks compute,
  // which is less where --decrease-batch-size-if-needed rounds it down.
  struct StepSize {
    std::int64_t asked = 0, computed = 0;
    int micro_batches = 0;
  };
  StepSize step_size(std::int64_t consumed_samples) const {
    return divided(batches.at(consumed_samples));
  }
  // Exit::unavailable if this host has fewer GPUs than its ranks need.
  void check_gpus() const;
  // Exit::bad_config if a step after so many samples cannot be divided among the ranks.
  void check_steps_from(std::int64_t consumed_samples) const;

  // The sequences of the largest step: --global-batch-size, or the last of a step schedule.  An
  // evaluation's are of this size too.
  std::int64_t batch_size() const { return batches.final_size(); }
  int micro_batches() const { return divided(batch_size()).micro_batches; }
  std::vector<int> micro_batches_of_steps() const {  // those that there are in a run
    std::vector<int> all;
    for (const std::int64_t sequences : batches.sizes_from(0))
      all.push_back(divided(sequences).micro_batches);
    return all;
  }
  std::int64_t evaluation_batch() const { return divided(batch_size()).computed; }
  TrainingLength length() const {
    return {.train_samples = train_samples,
            .train_iters = train_iters,
            .eval_iters = eval_iters,
            .eval_interval = eval_interval,
            .global_batch_size = batch_size(),
            .skip_train = skip_train,
            .full_validation = data.full_validation};
  }
  SamplerOptions sampler() const {
    return {.type = data.dataloader_type,
            .data_sharding = data.data_sharding,
            .micro_batch_size = micro_batch_size,
            .data_parallel_size = parallel_sizes().dp};
  }

  Launch process;  // set by take_process()
  // Set by complete().
  BatchSchedule batches;
  PipelineLayout pipeline_layout;

 private:
  StepSize divided(std::int64_t sequences) const {
    const std::int64_t at_once = micro_batch_size * parallel_sizes().dp;
    const std::int64_t micro_batches = sequences / at_once;
    constexpr std::int64_t kMost = std::numeric_limits<int>::max();  // more than any run may have
    return {sequences, micro_batches * at_once, static_cast<int>(std::min(micro_batches, kMost))};
  }
  void check_step(std::int64_t sequences) const;
  void complete_parallel() const;
  void complete_pipeline();
  void complete_reduction() const;
  void complete_device();
  void complete_processes();
  void complete_length();
  void complete_checkpoints() const;
  void go_on_after_failures();
};

}  // namespace mt
