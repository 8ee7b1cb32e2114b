// TrainStep: one step of a run on one rank: the gradients of a global batch, the checks of what
// came out, and the update of the weights.  Every rank calls the same with the same arguments.
#pragma once

#include <deque>
#include <span>

#include "comm/world.h"
#include "optim/optimizer.h"
#include "train/check/result_checks.h"
#include "train/options/run_options.h"
#include "train/run/executor.h"
#include "train/run/interruption.h"
#include "train/run/qk_clip.h"
#include "train/run/routing_files.h"
#include "train/run/step_clock.h"
#include "train/run/task.h"

namespace mt {

class TrainStep {
 public:
  // What a rank has.  All of it must outlive this.
  struct Parts {
    const Task& task;
    Model& model;
    Optimizer& optimizer;
    Executor& executor;
    const World& world;
    Stream& stream;
    Timers& timers;
    Interruption& interruption;  // its requests go with each step
    RoutingFiles* routing = nullptr;
  };
  TrainStep(const RunOptions& options, const Parts& parts);

  struct Asked {
    std::int64_t iteration = 0, first_sample = 0;
    int micro_batches = 0;  // of this rank
    StepRates rates = {};
    StepRates rates_after_skipped = {};  // if the step before has not ended, and is skipped
  };
  struct Result {
    TermValues losses = {};                  // of all ranks
    double loss = 0;                         // the objective's value
    std::vector<ExpertReport> experts = {};  // as in StepReport
    StepResult update = {};
    std::optional<double> max_attention_logit = {};  // where it is wanted
    double divisor = 1;  // what the sums of gradients, which the table has, were divided by
    double seconds = 0;  // by StepClock
  };
  // A step in two parts, as the optimizer's: end() is of the first step that was begun and not
  // ended.  Exit::difference where a check of the options finds something; of two steps that were
  // begun the second changes nothing then.
  void begin(const Asked& asked);
  Result end();
  Result run(const Asked& asked) {
    begin(asked);
    return end();
  }
  // Whether a step is to begin before the one before has ended, so that a GPU never waits for the
  // host: unless a check waits anyway.
  bool may_begin_early() const {
    return parts_.stream.device() == Device::cuda && !options_.checks.spiky_loss &&
           !options_.checks.large_grads;
  }

 private:
  struct Begun {
    Asked asked;
    std::vector<double> routers;  // Executor::router_sums() of all ranks
    std::optional<double> max_attention_logit;
  };
  void forward_backward(const Asked& asked);
  std::int64_t samples_of(const Asked& asked) const;  // of all ranks
  int terms() const { return static_cast<int>(parts_.task.objective().terms().size()); }
  std::vector<double> sum_routers();
  void update_expert_biases(std::span<const double> routers, std::int64_t micro_batches);
  void report_routers(const Begun& begun, Result& result) const;
  double divisor(double tokens) const;
  double gradient_norm();
  void check_before_update(const Asked& asked);
  [[noreturn]] void failed(const Asked& asked, double loss, double grad_norm);

  const RunOptions& options_;
  std::optional<QkClip> qk_clip_;
  Parts parts_;
  ResultChecks checks_;
  StepClock clock_;
  std::deque<Begun> begun_;  // and not ended
};

}  // namespace mt
