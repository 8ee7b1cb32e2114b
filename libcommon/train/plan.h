// Plan: what a step of a run needs on one rank, found by running that step on `meta` (DESIGN D3).
// The run allocates what the plan says, so the two cannot differ.
#pragma once

#include "base/json.h"
#include "model/gpt.h"
#include "train/executor.h"
#include "train/largest_tensors.h"
#include "train/train_options.h"

namespace mt {

// Bytes by lifetime.
struct RankMemory {
  std::size_t parameters = 0, gradients = 0, optimizer = 0;
  std::size_t work = 0;  // scratch of a GPU's operations
  StepMemory step;
  std::size_t total() const { return parameters + gradients + optimizer + work + step.total(); }
  void write(JsonWriter& json) const;  // an object
};

struct RankPlan {
  Cost step;                      // of a step on this rank, counted: recomputation, norms and all
  PerFamily<Cost> families = {};  // the same, by kinds of operations
  RankMemory memory;
  std::vector<LargeTensor> largest;  // of what lies in it, ten
};

struct Plan {
  TrainingLength length;           // as asked for; no train_iters: it was not
  std::int64_t parameters = 0;     // elements, the padded vocabulary's rows included
  double model_flops = 0;          // of a step over all ranks, by Megatron's formula
  std::vector<RankPlan> pipeline;  // of its ranks, in order; those beside them need as much
  int ranks = 1;                   // that share this memory:
  Device device = Device::cpu;
  std::size_t device_memory = 0;  // bytes, of this machine or of its GPU; 0: there is no GPU here
  const RankPlan& of(const World& world) const {
    return pipeline[static_cast<std::size_t>(world.position().pp)];
  }
  const RankPlan& fullest() const;  // of the rank that needs most memory
  std::size_t total() const;        // bytes of all ranks
  std::size_t room() const { return device_memory / static_cast<std::size_t>(ranks); }  // of each
  bool fits() const { return total() <= device_memory; }
};

Plan make_plan(const TrainOptions& options);

// One object, schema "mt-plan/1"; and the same for people.  What is said of a rank is of the one
// that needs most memory.
std::string plan_json(const Plan& plan);
std::string plan_text(const Plan& plan);

// What the run's executor is told, the same in the plan and in the run.
StepShape step_shape(const TrainOptions& options);
// This rank's part of the model's matrices.
TensorPart tensor_part(const TrainOptions& options, const World& world);

}  // namespace mt
