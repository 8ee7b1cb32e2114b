#include "data/samples/length_options.h"

#include "base/command.h"
#include "data/samples/batch_options.h"
#include "data/samples/evaluation_options.h"

namespace mt {

void EvaluationOptions::add_to(CommandLine& cl) {
  cl.option("--eval-iters", &eval_iters, "N", "global batches of an evaluation; 0: none",
            at_least(0));
  cl.option("--eval-interval", &eval_interval, "N", "steps between evaluations", at_least(1));
  cl.flag("--skip-train", &skip_train, "only evaluate, on validation and test samples");
}

void LengthOptions::add_to(CommandLine& cl) {
  cl.option("--train-iters", &train_iters, "N", "steps of the whole run", at_least(1));
  cl.option("--train-samples", &train_samples, "N",
            "samples of the whole run, instead of --train-iters", at_least(1));
}

void LengthOptions::add_exits_to(CommandLine& cl) {
  cl.option("--exit-interval", &exit_interval, "N",
            "save and end after every N-th step, to go on in another job", at_least(1));
  cl.option("--exit-duration-in-mins", &exit_duration_in_mins, "F",
            "save and end after the step in which so much time has passed", at_least(0));
}

void LengthOptions::complete(const BatchOptions& batch) {
  if (train_iters > 0 && train_samples > 0)
    fail(Exit::usage, "--train-iters and --train-samples exclude each other");
  const bool counts_steps = train_samples == 0 && (train_iters > 0 || data_samples > 0);
  if (counts_steps && batch.schedule.changes())
    fail(Exit::usage,
         batch.step_batch_size_schedule.empty() ? "--rampup-batch-size"
                                                : "--step-batch-size-schedule",
         ": needs --train-samples instead of --train-iters");
  if (counts_steps && train_iters == 0)
    train_iters = (data_samples + batch.largest() - 1) / batch.largest();
  if (train_samples == 0) return;
  train_iters = batch.schedule.iterations(train_samples);
  if (train_iters == 0)
    fail(Exit::bad_config, "--train-samples ", train_samples, ": less than a step of ",
         batch.largest());
}

TrainingLength training_length(const LengthOptions& length, const BatchOptions& batch,
                               const EvaluationOptions& evaluation, bool full_validation) {
  return {.train_samples = length.train_samples,
          .train_iters = length.train_iters,
          .eval_iters = evaluation.eval_iters,
          .eval_interval = evaluation.eval_interval,
          .global_batch_size = batch.largest(),
          .skip_train = evaluation.skip_train,
          .full_validation = full_validation,
          .eval_batch_size = batch.largest_evaluated()};
}

}  // namespace mt
