// RunOptions: what a run can be told, whatever it trains and on what; a struct for each subject.
#pragma once

#include <cstdint>

#include "data/samples/batch_options.h"
#include "data/samples/evaluation_options.h"
#include "data/samples/length_options.h"
#include "optim/optimizer_options.h"
#include "optim/param_schedule.h"
#include "tensor/device_options.h"
#include "train/check/check_options.h"
#include "train/options/checkpoint_options.h"
#include "train/options/fp8_options.h"
#include "train/options/qk_clip_options.h"
#include "train/options/rank_options.h"
#include "train/options/report_options.h"
#include "train/options/routing_options.h"

namespace mt {

struct PlanOptions;

struct RunOptions {
  BatchOptions batch;
  LengthOptions length;
  EvaluationOptions evaluation;
  DeviceOptions compute;
  Fp8Options fp8;
  bool cuda_graphs = true;
  std::uint64_t seed = 1234;
  RankOptions ranks;
  OptimizerOptions optimizer;
  ParamSchedule schedule;
  CheckpointOptions checkpoint;
  CheckOptions checks;
  RoutingOptions routing;
  QkClipOptions qk_clip;
  ReportOptions report;

  // Declares the sections up to that of evaluation, which the caller may add to, and those after.
  void add_to(CommandLine& cl);
  void add_reports_to(CommandLine& cl);

  // What is done instead of the run, if anything.
  struct Instead {
    const PlanOptions& plan;
    bool check_layout = false;
  };
  // Checks what must fit together, and derives what was not given, but for the model's part.
  void complete(const Instead& instead);
  // The rest, for a model and texts of so many tokens.  documents: whether attention stays within
  // them.
  void complete_for(const ModelConfig& model, std::int64_t seq_length, bool documents,
                    const Instead& instead);
  // Exit::bad_config if a step after so many samples cannot be divided among the ranks.
  void check_steps_from(std::int64_t consumed_samples) const;

  DType compute_dtype() const { return compute.compute_dtype(); }
  Device device() const { return compute.device(); }
  // Whether a plan says how long a step takes.
  bool plans_times() const { return device() == Device::cuda && size_of(compute_dtype()) == 2; }

 private:
  void complete_device(const Instead& instead);
  void complete_processes();
  void check_step(std::int64_t sequences) const;
  void check_model(const ModelConfig& model, bool documents) const;
  void check_experts() const;
  void check_reduction() const;
};

}  // namespace mt
