// ParamSchedule: learning rates and weight decay as functions of n, the samples that successful
// steps have consumed (Megatron's OptimizerParamScheduler).  W warm-up samples, D decay samples, r
// = (n - W) / (D - W);  rate = min + c (max - min) with c by style:
//   n <= W, W > 0         rate = init + (max - init) n / W
//   constant              rate = max
//   n > D                 rate = min
//   linear                c = 1 - r
//   cosine                c = (cos(pi r) + 1) / 2
//   inverse-square-root   rate = max(min, max sqrt(max(W, 1)) / sqrt(max(n, 1)))
//   WSD                   c = 1 until the last T samples of D; then, with t = (n - D + T) / T,
//                         linear 1 - t, cosine (cos(pi t) + 1) / 2, exponential 2 0.5^t - 1,
//                         minus_sqrt 1 - sqrt(t)
// Weight decay over S samples of the whole run, x = min(n / S, 1): start + c (end - start), c = x
// (linear) or (cos(pi (1 - x)) + 1) / 2 (cosine).
// Step i (from 1) runs with the values at n = samples consumed before it.  f64 throughout.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/command.h"

namespace mt {

// What a step multiplies with.
struct StepRates {
  double learning_rate = 0;
  double decoupled_learning_rate = 0;  // of word embeddings and output layer
  double weight_decay = 0;
};

class ParamSchedule {
 public:
  // How long a run is: by steps of `global_batch_size`, or by samples where those are not 0.
  struct RunLength {
    std::int64_t train_iters = 0, train_samples = 0, global_batch_size = 0;
  };
  // Largest and smallest learning rate of a group of parameters.
  struct Span {
    double max = 0, min = 0;
    friend bool operator==(const Span&, const Span&) = default;
  };
  // What complete() makes of the options, and what a checkpoint keeps; lengths in samples.
  struct Values {
    Span lr;
    std::optional<Span> decoupled = {};  // of a checkpoint: if it has such a group
    double warmup = 0, decay = 0;
    std::string decay_style = {};
    double start_weight_decay = 0, end_weight_decay = 0, weight_decay_span = 0;
    std::string weight_decay_style = {};
    bool is_valid() const;  // known styles, lengths and rates that can be
  };

  void add_to(CommandLine& cl);
  // Derives the values.  Exit::usage or bad_config where options do not fit together.
  void complete(const RunLength& length);
  // Takes the checkpoint's values if --use-checkpoint-opt_param-scheduler says so, keeps these with
  // --override-opt_param-scheduler, and without either demands that they be equal:
  // Exit::bad_config.  `where` names the checkpoint.
  void merge(const Values& stored, const std::string& where);

  StepRates at(std::int64_t samples) const;
  const Values& values() const { return values_; }
  bool is_given() const { return lr > 0; }
  bool has_decoupled() const { return decoupled_lr.has_value(); }

  double lr = 0, min_lr = 0, warmup_init = 0;
  std::optional<double> decoupled_lr, decoupled_min_lr;
  std::string decay_style = "linear", wsd_decay_style = "exponential";
  std::optional<std::int64_t> decay_iters, decay_samples;  // default: the whole run
  std::optional<std::int64_t> wsd_decay_iters, wsd_decay_samples;
  std::int64_t warmup_iters = 0, warmup_samples = 0;
  std::optional<double> warmup_fraction;  // of the decay's length; instead of both
  double weight_decay = 0.01;
  std::optional<double> start_weight_decay, end_weight_decay;
  std::string weight_decay_incr_style = "constant";
  bool override_checkpoint = false, use_checkpoint = false;

 private:
  void check_rates() const;
  void check_units(bool by_samples) const;
  void complete_weight_decay();
  double rate(const Span& span, double samples) const;
  double coefficient(double samples) const;
  double weight_decay_at(double samples) const;

  Values values_;
  double wsd_decay_ = 0;  // samples
};

}  // namespace mt
