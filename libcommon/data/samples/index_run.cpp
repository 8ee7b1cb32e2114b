#include "data/samples/index_run.h"

#include <exception>
#include <mutex>

#include "base/command.h"
#include "data/samples/batch_schedule.h"

namespace mt {
namespace {

BatchSchedule schedule_of(const IndexOptions& options) {
  if (options.step_batch_size_schedule.empty()) {
    if (!options.global_batch_size)
      fail(Exit::usage, "--global-batch-size: required, or --step-batch-size-schedule");
    return {*options.global_batch_size, options.rampup_batch_size};
  }
  if (options.global_batch_size || !options.rampup_batch_size.empty())
    fail(Exit::usage, "--step-batch-size-schedule excludes --global-batch-size and ",
         "--rampup-batch-size");
  return BatchSchedule::by_tokens(options.step_batch_size_schedule, options.data.seq_length);
}

TrainingLength length_of(const IndexOptions& options) {
  const BatchSchedule batches = schedule_of(options);
  const bool by_samples = options.train_samples > 0;
  if (by_samples && options.train_iters > 0)
    fail(Exit::usage, "--train-iters and --train-samples exclude each other");
  if (!by_samples && options.train_iters == 0 && !options.skip_train)
    fail(Exit::usage, "--train-iters: required, or --train-samples");
  if (!by_samples && batches.changes())
    fail(Exit::usage, "a changing batch size needs --train-samples instead of --train-iters");
  return {
      .train_samples = options.train_samples,
      .train_iters = by_samples ? batches.iterations(options.train_samples) : options.train_iters,
      .eval_iters = options.eval_iters,
      .eval_interval = options.eval_interval,
      .global_batch_size = batches.final_size(),
      .skip_train = options.skip_train,
      .full_validation = options.data.full_validation};
}

}  // namespace

void IndexOptions::add_to(CommandLine& cl) {
  cl.section("Data");
  data.add_samples_to(cl);
  cl.required("--seq-length");
  cl.option("--data-cache-path", &data.cache_path, "DIR", "where the indexes go");
  cl.required("--data-cache-path");
  cl.option("--dataloader-type", &data.dataloader_type, "TYPE",
            "single: the data must give all that is trained on; cyclic: it need not",
            one_of({"single", "cyclic"}));
  data.add_validation_to(cl);
  cl.section("Length of the run");
  cl.option("--global-batch-size", &global_batch_size, "N", "sequences of a step over all ranks",
            at_least(1));
  cl.option("--rampup-batch-size", &rampup_batch_size, "START INCREMENT SAMPLES",
            "as mt-pretrain takes it");
  cl.option("--step-batch-size-schedule", &step_batch_size_schedule, "TOKENS:SEQUENCES ...",
            "as mt-pretrain takes it, instead of --global-batch-size");
  cl.option("--train-iters", &train_iters, "N", "steps of the whole run", at_least(1));
  cl.option("--train-samples", &train_samples, "N",
            "samples of the whole run, instead of --train-iters", at_least(1));
  cl.option("--eval-iters", &eval_iters, "N", "global batches of an evaluation; 0: none",
            at_least(0));
  cl.option("--eval-interval", &eval_interval, "N", "steps between evaluations", at_least(1));
  cl.flag("--skip-train", &skip_train, "only evaluate, on validation and test samples");
  cl.option("--seed", &seed, "N", "seed of the order", between(1, 4294967295.0));
  cl.section("Speed and talk");
  cl.option("--threads,-j", &data.threads, "N", "worker threads; 0: one a core", at_least(0));
}

std::string IndexSummary::text() const {
  std::string text;
  for (const Set& set : sets) {
    const std::string name = set.name.empty() ? "" : " of " + set.name;
    text += concat(set.split, name, ": ", set.samples, set.samples == 1 ? " sample" : " samples",
                   " from ", set.datasets, set.datasets == 1 ? " dataset" : " datasets", "\n");
  }
  return text + concat("indexes: ", made, " made, ", found, " found\n");
}

void IndexSummary::write(JsonWriter& json) const {
  json.begin_object().member("schema", "mt-index/1").key("sets").begin_array();
  for (const Set& set : sets)
    json.begin_object()
        .member("split", set.split)
        .member("name", set.name)
        .member("datasets", set.datasets)
        .member("samples", set.samples)
        .end_object();
  json.end_array().member("made", made).member("found", found).end_object();
}

IndexSummary index_run(const IndexOptions& options, const RunContext& context) {
  if (options.data.cache_path.empty()) fail(Exit::usage, "--data-cache-path: expected a folder");
  const TrainingLength length = length_of(options);
  TrainData data(options.data, false);
  std::mutex mutex;
  std::exception_ptr stop;  // once one thread has seen it, it is for all
  const auto poll = [&] {
    const std::lock_guard lock(mutex);
    if (stop) std::rethrow_exception(stop);
    try {
      context.checkpoint();
    } catch (...) {
      stop = std::current_exception();
      throw;
    }
  };
  data.build(length, options.seed, {.type = options.data.dataloader_type}, context.log, poll);
  IndexSummary summary;
  for (int i = 0; i < kSplits; ++i)
    for (const auto& set : data.sets(static_cast<Split>(i))) {
      const Samples::Indexes indexes = set->samples->indexes();
      summary.sets.push_back({kSplitNames[i], set->name, indexes.files, set->samples->size()});
      summary.made += indexes.made;
      summary.found += indexes.found;
    }
  return summary;
}

}  // namespace mt
