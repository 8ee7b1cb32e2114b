// Trainer: one rank of a training run, from its first values to its last evaluation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "train/plan/plan.h"
#include "train/report/reports.h"
#include "train/run/checkpoint.h"
#include "train/run/drawing_model.h"
#include "train/run/evaluator.h"
#include "train/run/interruption.h"
#include "train/run/teacher_rows.h"
#include "train/run/train_step.h"

namespace mt {

class Trainer {
 public:
  // Of Task::Drawing.
  struct Others {
    Group* drawers = nullptr;
    Rendezvous* met = nullptr;
  };
  // Makes the rank's part of the model and its optimizer, and loads them or draws their first
  // values; all ranks of `world` make one.  routing: null, or what all of them have together.
  Trainer(const RunOptions& options, const Task& task, const Plan& plan, const World& world,
          const Others& drawing, RoutingFiles* routing, Stream& stream,
          const Interruption::Limits& limits, const Log& log);
  ~Trainer() { task_.forget(world_.all()); }
  // Trains, evaluates and saves as train() (train/run/train.h) says.
  void run(const std::string& options_json);

 private:
  void draw(bool with_teacher);
  bool train_to_the_end();
  void save_before_larger_steps(int micro_batches);
  void compare_replicas();
  void skip_step(const BatchOptions::StepSize& size);
  const Model& drawing_model();
  Task::Drawing drawing();
  void have_drawn();
  void draw_samples(const BatchOptions::StepSize& size);
  int micro_batches_of(const BatchOptions::StepSize& size) const;
  void validate_drawn();
  std::vector<double> score_drawn(const SampleSet& set);
  void begin_step(const BatchOptions::StepSize& size);
  void end_step();
  void search_again(double step_seconds);
  void evaluate(Split which, const char* name, const char* where);
  std::optional<std::vector<double>> score(const SampleSet& set);
  void begin_task();
  void end_epoch(std::int64_t epoch);
  void evaluate_at_end();
  std::optional<std::string> save_and_decide();
  void heed_signals();
  [[noreturn]] void stopped(Signal signal) const;
  void save(bool lasting);
  void finish_save(bool wait);
  TrainingState state() {
    return {task_,   *model_,    optimizer_,  schedule_, counters_,
            stream_, tokenizer_, companions_, teacher_,  executor_.fp8()};
  }
  void save_once();
  void report_end(const std::string& reason);
  RankMemory memory() const;

  const RunOptions& options_;
  const Task& task_;
  const World& world_;
  Others drawing_;
  Interruption interruption_;
  Log log_;
  std::int64_t parameters_;  // of the whole model
  Stream& stream_;
  StepProfiler profiler_;
  std::unique_ptr<Model> model_;
  Optimizer optimizer_;
  ParamSchedule schedule_;
  Executor executor_;
  Evaluator evaluator_;
  TrainCounters counters_;
  KeptTokenizer tokenizer_;
  std::vector<Companion> companions_;
  TeacherRows teacher_;
  double flops_of_sample_;
  std::optional<StepReport> begun_;  // the step that has not ended, as far as is known
  int micro_batches_ = 0;            // of the step before; 0: none yet
  int ended_ = 0;                    // steps
  std::int64_t ended_at_ = 0;        // iteration of the last
  // A step's seconds, where products may be searched for again before the next one.
  std::optional<double> warm_step_seconds_;
  std::int64_t saved_at_ = 0;       // iteration of the lasting checkpoint last written or loaded
  std::int64_t validated_at_ = -1;  // iteration of the last validation by texts that are drawn
  Reports reports_;
  const RoutingFiles* routing_;  // null: routers' choices are neither kept nor imposed
  TrainStep step_;
  std::unique_ptr<Group> drawing_ranks_;  // where those that share matrices do not draw together
  PassRanks together_;
  std::optional<DrawingModel> drawn_by_;  // where that is not model_
  std::size_t scratch_ = 0;               // bytes of the stream's, when texts were drawn last
  std::optional<TrainingSave> saving_;    // not yet published
  SaveReport save_report_;                // of it
  int saves_ = 0;                         // with it
};

}  // namespace mt
