// Plan: what a step of a run needs on one rank, found by running that step on `meta` (DESIGN D3).
// The run allocates what the plan says, so the two cannot differ.
#pragma once

#include "base/json.h"
#include "model/families/gpt.h"
#include "train/options/train_options.h"
#include "train/plan/largest_tensors.h"
#include "train/plan/step_times.h"
#include "train/run/executor.h"
#include "train/run/task.h"

namespace mt {

// Bytes by lifetime.
struct RankMemory {
  std::size_t parameters = 0, gradients = 0, optimizer = 0;
  std::size_t work = 0;  // scratch of a GPU's operations
  // These are of plans alone: what CUDA keeps of a GPU for itself, and what NCCL and copies among
  // GPUs take.
  std::size_t cuda = 0, nccl = 0, copies = 0;
  StepMemory step;
  std::size_t total() const {
    return parameters + gradients + optimizer + work + cuda + nccl + copies + step.total();
  }
  void write(JsonWriter& json) const;  // an object
};

struct RankPlan {
  Cost step;                      // of a step on this rank, counted: recomputation, norms and all
  PerFamily<Cost> families = {};  // the same, by kinds of operations
  RankMemory memory;
  std::vector<LargeTensor> largest;     // of what lies in it, ten
  std::vector<GroupMessages> messages;  // that leave it in a step
  RankParts parts;                      // of the step
};

struct Plan {
  TrainingLength length;           // as asked for; no train_iters: it was not
  std::int64_t parameters = 0;     // elements, the padded vocabulary's rows included
  double model_flops = 0;          // of a step over all ranks, by Megatron's formula
  std::int64_t tokens = 0;         // of a step
  std::vector<RankPlan> pipeline;  // of its ranks, in order; those beside them need as much
  int ranks = 1;
  Device device = Device::cpu;
  // Bytes: of this machine, which the ranks share, or of the GPU that each has; 0: there is none.
  std::size_t device_memory = 0;
  // What GPUs are supposed, and how long a step takes on them; not of the CPU, nor of 32 bits.
  std::optional<Machine> machine;
  std::optional<StepTimes> times;
  const RankPlan& of(const World& world) const {
    return pipeline[static_cast<std::size_t>(world.position().pp)];
  }
  const RankPlan& fullest() const;  // of the rank that needs most memory
  std::size_t total() const;        // bytes of all ranks
  std::size_t room() const {        // of each
    return device == Device::cuda ? device_memory : device_memory / static_cast<std::size_t>(ranks);
  }
  bool fits() const {
    return device == Device::cuda ? fullest().memory.total() <= device_memory
                                  : total() <= device_memory;
  }
  double mfu() const;  // the part of the machine's peak that the model's FLOPs are
};

// The largest tensors take half of the time.
enum class PlanDetail : std::uint8_t { all, without_largest };
Plan make_plan(const TrainOptions& options, PlanDetail detail = PlanDetail::all);

// One object, schema "mt-plan/1"; and the same for people.  What is said of a rank is of the one
// that needs most memory, of times that of the slowest.
std::string plan_json(const Plan& plan);
std::string plan_text(const Plan& plan, int columns);  // of the schedule's drawing
// An image of the schedule of a plan that has times.
void write_plan_svg(const Plan& plan, const std::string& path);

// What the run's executor is told, the same in the plan and in the run.
StepShape step_shape(const TrainOptions& options, const Task& task);
// This rank's part of the model's matrices.
TensorPart tensor_part(const TrainOptions& options, const World& world);

}  // namespace mt
