#include "optim/param_schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace mt {

static constexpr std::array kDecayStyles{"constant", "linear", "cosine", "inverse-square-root",
                                         "WSD"};
static constexpr std::array kWeightDecayStyles{"constant", "linear", "cosine"};

bool ParamSchedule::Values::is_valid() const {
  const auto knows = [](const auto& styles, const std::string& style) {
    return std::ranges::find(styles, style) != styles.end();
  };
  return knows(kDecayStyles, decay_style) && knows(kWeightDecayStyles, weight_decay_style) &&
         lr.max >= lr.min && lr.min >= 0 && warmup >= 0 && decay > 0 && start_weight_decay >= 0 &&
         end_weight_decay >= 0 && weight_decay_span > 0;
}

void ParamSchedule::add_to(CommandLine& cl) {
  cl.section("Learning rate");
  cl.option("--lr", &lr, "F", "peak learning rate", greater_than(0));
  cl.option("--min-lr", &min_lr, "F", "learning rate at the end of the decay", at_least(0));
  cl.option("--lr-decay-style", &decay_style, "STYLE",
            "constant, linear, cosine, inverse-square-root or WSD (warm-up, stable, decay)",
            one_of({"constant", "linear", "cosine", "inverse-square-root", "WSD"}));
  cl.option("--lr-decay-iters", &decay_iters, "N", "steps until --min-lr; default --train-iters",
            at_least(1));
  cl.option("--lr-decay-samples", &decay_samples, "N",
            "sequences until --min-lr; default --train-samples", at_least(1));
  cl.option("--lr-wsd-decay-style", &wsd_decay_style, "STYLE",
            "of WSD's end: exponential, linear, cosine or minus_sqrt",
            one_of({"exponential", "linear", "cosine", "minus_sqrt"}));
  cl.option("--lr-wsd-decay-iters", &wsd_decay_iters, "N", "steps of WSD's end", at_least(1));
  cl.option("--lr-wsd-decay-samples", &wsd_decay_samples, "N", "sequences of WSD's end",
            at_least(1));
  cl.option("--lr-warmup-iters", &warmup_iters, "N", "steps of linear warm-up", at_least(0));
  cl.option("--lr-warmup-samples", &warmup_samples, "N", "sequences of linear warm-up",
            at_least(0));
  cl.option("--lr-warmup-fraction", &warmup_fraction, "F",
            "warm-up as a part of the decay's length", between(0, 1));
  cl.option("--lr-warmup-init", &warmup_init, "F", "learning rate at the start of the warm-up",
            at_least(0));
  cl.option("--decoupled-lr", &decoupled_lr, "F",
            "peak learning rate of word embeddings and output layer", greater_than(0));
  cl.option("--decoupled-min-lr", &decoupled_min_lr, "F",
            "their learning rate at the end of the decay; default --min-lr", at_least(0));
  cl.option("--weight-decay", &weight_decay, "F", "not of biases and norms", at_least(0));
  cl.option("--start-weight-decay", &start_weight_decay, "F", "at the start of the run",
            at_least(0));
  cl.option("--end-weight-decay", &end_weight_decay, "F", "at its end", at_least(0));
  cl.option("--weight-decay-incr-style", &weight_decay_incr_style, "STYLE",
            "constant, or linear or cosine from --start-weight-decay to --end-weight-decay",
            one_of({"constant", "linear", "cosine"}));
  cl.flag("--override-opt_param-scheduler,--override-opt-param-scheduler", &override_checkpoint,
          "these settings even where the checkpoint's differ");
  cl.flag("--use-checkpoint-opt_param-scheduler,--use-checkpoint-opt-param-scheduler",
          &use_checkpoint, "the checkpoint's settings instead of these");
}

void ParamSchedule::check_rates() const {
  if (min_lr > lr) fail(Exit::bad_config, "--min-lr ", min_lr, ": larger than --lr ", lr);
  if (warmup_init > lr)
    fail(Exit::bad_config, "--lr-warmup-init ", warmup_init, ": larger than --lr ", lr);
  if (decoupled_min_lr && !decoupled_lr)
    fail(Exit::usage, "--decoupled-min-lr: needs --decoupled-lr");
  if (decoupled_lr && decoupled_min_lr.value_or(min_lr) > *decoupled_lr)
    fail(Exit::bad_config, "--decoupled-min-lr ", decoupled_min_lr.value_or(min_lr),
         ": larger than --decoupled-lr ", *decoupled_lr);
  if (override_checkpoint && use_checkpoint)
    fail(Exit::usage,
         "--override-opt_param-scheduler and --use-checkpoint-opt_param-scheduler "
         "exclude each other");
}

void ParamSchedule::check_units(bool by_samples) const {
  const bool iters = decay_iters || wsd_decay_iters || warmup_iters > 0;
  const bool samples = decay_samples || wsd_decay_samples || warmup_samples > 0;
  if (by_samples && iters)
    fail(Exit::usage,
         "--lr-decay-iters, --lr-wsd-decay-iters and --lr-warmup-iters need --train-iters");
  if (!by_samples && samples)
    fail(Exit::usage,
         "--lr-decay-samples, --lr-wsd-decay-samples and --lr-warmup-samples need --train-samples");
  if (warmup_fraction && (warmup_iters > 0 || warmup_samples > 0))
    fail(Exit::usage, "--lr-warmup-fraction and ",
         by_samples ? "--lr-warmup-samples" : "--lr-warmup-iters", " exclude each other");
  if (decay_style == "WSD" && !wsd_decay_iters && !wsd_decay_samples)
    fail(Exit::usage, "--lr-decay-style WSD: needs ",
         by_samples ? "--lr-wsd-decay-samples" : "--lr-wsd-decay-iters");
}

void ParamSchedule::complete_weight_decay() {
  const bool constant = weight_decay_incr_style == "constant";
  if (constant && (start_weight_decay || end_weight_decay))
    fail(Exit::usage,
         "--start-weight-decay and --end-weight-decay need a --weight-decay-incr-style other than "
         "constant");
  if (!constant && !(start_weight_decay && end_weight_decay))
    fail(Exit::usage, "--weight-decay-incr-style ", weight_decay_incr_style,
         ": needs --start-weight-decay and --end-weight-decay");
  values_.start_weight_decay = start_weight_decay.value_or(weight_decay);
  values_.end_weight_decay = end_weight_decay.value_or(weight_decay);
  values_.weight_decay_style = weight_decay_incr_style;
  if (values_.end_weight_decay < values_.start_weight_decay)
    fail(Exit::bad_config, "--end-weight-decay ", values_.end_weight_decay,
         ": less than --start-weight-decay ", values_.start_weight_decay);
}

void ParamSchedule::complete(const RunLength& length) {
  const bool by_samples = length.train_samples > 0;
  check_rates();
  check_units(by_samples);
  const auto in_samples = [&](std::int64_t iters, std::int64_t samples) {
    return by_samples ? static_cast<double>(samples)
                      : static_cast<double>(iters) * static_cast<double>(length.global_batch_size);
  };
  values_.lr = {lr, min_lr};
  if (decoupled_lr) values_.decoupled = {*decoupled_lr, decoupled_min_lr.value_or(min_lr)};
  values_.decay_style = decay_style;
  values_.decay = in_samples(decay_iters.value_or(length.train_iters),
                             decay_samples.value_or(length.train_samples));
  values_.warmup =
      warmup_fraction ? *warmup_fraction * values_.decay : in_samples(warmup_iters, warmup_samples);
  wsd_decay_ = in_samples(wsd_decay_iters.value_or(0), wsd_decay_samples.value_or(0));
  values_.weight_decay_span = in_samples(length.train_iters, length.train_samples);
  complete_weight_decay();
  if (decay_style != "constant" && values_.warmup >= values_.decay)
    fail(Exit::bad_config, by_samples ? "--lr-warmup-samples" : "--lr-warmup-iters",
         ": the warm-up of ", values_.warmup, " samples is not shorter than the decay of ",
         values_.decay);
}

double ParamSchedule::coefficient(double n) const {
  const double pi = std::numbers::pi, decay = values_.decay;
  if (values_.decay_style == "WSD") {
    const double tail = decay - wsd_decay_;
    if (n <= tail) return 1;
    const double t = (n - tail) / wsd_decay_;
    if (wsd_decay_style == "linear") return 1 - t;
    if (wsd_decay_style == "cosine") return 0.5 * (std::cos(pi * t) + 1);
    if (wsd_decay_style == "exponential") return 2 * std::pow(0.5, t) - 1;
    return 1 - std::sqrt(t);
  }
  const double r = (n - values_.warmup) / (decay - values_.warmup);
  return values_.decay_style == "linear" ? 1 - r : 0.5 * (std::cos(pi * r) + 1);
}

double ParamSchedule::rate(const Span& span, double n) const {
  const double warmup = values_.warmup;
  if (warmup > 0 && n <= warmup) return warmup_init + (span.max - warmup_init) * n / warmup;
  if (values_.decay_style == "constant") return span.max;
  if (n > values_.decay) return span.min;
  if (values_.decay_style == "inverse-square-root")
    return std::max(span.min,
                    span.max * std::sqrt(std::max(warmup, 1.0)) / std::sqrt(std::max(n, 1.0)));
  return span.min + coefficient(n) * (span.max - span.min);
}

double ParamSchedule::weight_decay_at(double n) const {
  const Values& v = values_;
  if (n > v.weight_decay_span || v.weight_decay_style == "constant") return v.end_weight_decay;
  const double x = n / v.weight_decay_span;
  const double c =
      v.weight_decay_style == "linear" ? x : 0.5 * (std::cos(std::numbers::pi * (1 - x)) + 1);
  return v.start_weight_decay + c * (v.end_weight_decay - v.start_weight_decay);
}

StepRates ParamSchedule::at(std::int64_t samples) const {
  const auto n = static_cast<double>(samples);
  return {.learning_rate = rate(values_.lr, n),
          .decoupled_learning_rate = rate(values_.decoupled.value_or(values_.lr), n),
          .weight_decay = weight_decay_at(n)};
}

void ParamSchedule::merge(const Values& stored, const std::string& where) {
  if (override_checkpoint) return;
  const auto take = [&](auto& ours, const auto& theirs, const char* name) {
    if (!use_checkpoint && ours != theirs)
      fail(
          Exit::bad_config, where, ": ", name, " is ", theirs, " in the checkpoint and ", ours,
          " here; --override-opt_param-scheduler takes this one, "
          "--use-checkpoint-opt_param-scheduler that one; --finetune begins anew from its weights");
    ours = theirs;
  };
  Values& v = values_;
  take(v.lr.max, stored.lr.max, "the peak learning rate");
  take(v.lr.min, stored.lr.min, "the least learning rate");
  if (v.decoupled && stored.decoupled) {
    take(v.decoupled->max, stored.decoupled->max, "the decoupled peak learning rate");
    take(v.decoupled->min, stored.decoupled->min, "the decoupled least learning rate");
  }
  take(v.warmup, stored.warmup, "the warm-up in samples");
  take(v.decay, stored.decay, "the learning rate's decay in samples");
  take(v.decay_style, stored.decay_style, "the learning rate's decay style");
  take(v.start_weight_decay, stored.start_weight_decay, "the weight decay at the start");
  take(v.end_weight_decay, stored.end_weight_decay, "the weight decay at the end");
  take(v.weight_decay_span, stored.weight_decay_span, "the weight decay's length in samples");
  take(v.weight_decay_style, stored.weight_decay_style, "the weight decay's style");
  if (v.decay_style == "WSD" && wsd_decay_ == 0)
    fail(Exit::usage, "--lr-wsd-decay-iters: the checkpoint's WSD needs it");
}

}  // namespace mt
