// Plan: what a step of a run needs on one rank, found by running that step on `meta` (DESIGN D3).
// The run allocates what the plan says, so the two cannot differ.
#pragma once

#include "comm/world.h"
#include "data/samples/split.h"
#include "model/tensor_part.h"
#include "train/plan/drawing_plan.h"
#include "train/plan/largest_tensors.h"
#include "train/plan/rank_memory.h"
#include "train/plan/step_times.h"
#include "train/run/step_shape.h"

namespace mt {

class Task;
struct ParallelOptions;
struct PlanOptions;
struct RunOptions;

struct RankPlan {
  Cost step;                      // of a step on this rank, counted: recomputation, norms and all
  PerFamily<Cost> families = {};  // the same, by kinds of operations
  RankMemory memory;
  std::vector<LargeTensor> largest;     // of what lies in it, ten
  std::vector<GroupMessages> messages;  // that leave it in a step
  RankParts parts;                      // of the step
  // Seconds that it evaluates as many samples as a step has, where texts are asked about.
  double evaluation = 0;
};

struct Plan {
  TrainingLength length;           // as asked for; no train_iters: it was not
  std::int64_t parameters = 0;     // elements, the padded vocabulary's rows included
  double model_flops = 0;          // of a step over all ranks, by Megatron's formula
  std::int64_t tokens = 0;         // of a step
  std::vector<RankPlan> pipeline;  // of its ranks, in order; those beside them need as much
  int ranks = 1;
  int drawers = 0;            // further ranks, which draw texts for these
  std::size_t of_drawer = 0;  // bytes that each of them needs
  Device device = Device::cpu;
  // Bytes: of this machine, which the ranks share, or of the GPU that each has; 0: there is none.
  std::size_t device_memory = 0;
  // What is supposed of each rank, and how long a step takes: on GPUs in 16 bits, or, where it was
  // asked for, on this CPU.
  std::optional<Machine> machine;
  std::optional<StepTimes> times;
  std::optional<DrawingPlan> drawing;  // where it has times and the model writes texts
  const RankPlan& of(const World& world) const {
    return pipeline[static_cast<std::size_t>(world.position().pp)];
  }
  const RankPlan& fullest() const;  // of the rank that needs most memory
  std::size_t total() const;        // bytes of all ranks, and of those that draw for them
  std::size_t room() const {        // of each
    return device == Device::cuda ? device_memory : device_memory / static_cast<std::size_t>(ranks);
  }
  bool drawers_fit() const { return device == Device::cpu || of_drawer <= device_memory; }
  bool fits() const {
    return device == Device::cuda ? fullest().memory.total() <= device_memory && drawers_fit()
                                  : total() <= device_memory;
  }
  double mfu() const;  // the part of the machine's peak that the model's FLOPs are
};

// The largest tensors take half of the time.
enum class PlanDetail : std::uint8_t { all, without_largest };
Plan make_plan(const RunOptions& options, const Task& task, const PlanOptions& asked,
               PlanDetail detail = PlanDetail::all);
// The plan of the run itself, on the machine that is here.
Plan make_plan(const RunOptions& options, const Task& task);

// One object, schema "mt-plan/1"; and the same for people.  What is said of a rank is of the one
// that needs most memory, of times that of the slowest.
std::string plan_json(const Plan& plan);
std::string plan_text(const Plan& plan, int columns);  // of the schedule's drawing
// An image of the schedule of a plan that has times.
void write_plan_svg(const Plan& plan, const std::string& path, bool overwrite);

// What the run's executor is told, the same in the plan and in the run.
StepShape step_shape(const RunOptions& options, const Task& task);
// This rank's part of the model's matrices.
TensorPart tensor_part(const ParallelOptions& options, const World& world);

}  // namespace mt
