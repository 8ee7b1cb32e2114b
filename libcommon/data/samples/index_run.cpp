#include "data/samples/index_run.h"

#include <exception>
#include <mutex>

#include "base/command.h"

namespace mt {
namespace {

TrainingLength length_of(const IndexOptions& options) {
  BatchOptions batch = options.batch;
  LengthOptions length = options.length;
  if (!batch.global_batch_size && batch.step_batch_size_schedule.empty())
    fail(Exit::usage, "--global-batch-size: required, or --step-batch-size-schedule");
  batch.complete_schedule(options.data.seq_length);
  if (length.train_iters == 0 && length.train_samples == 0 && !options.evaluation.skip_train)
    fail(Exit::usage, "--train-iters: required, or --train-samples");
  length.complete(batch);
  return training_length(length, batch, options.evaluation, options.data.full_validation);
}

}  // namespace

void IndexOptions::add_to(CommandLine& cl) {
  cl.section("Data");
  cl.option("--dataset", &dataset, "TYPE", "whose samples: gpt, bert or t5",
            one_of({"gpt", "bert", "t5"}));
  data.add_samples_to(cl);
  cl.required("--seq-length");
  cl.option("--data-cache-path", &data.cache_path, "DIR", "where the indexes go");
  cl.required("--data-cache-path");
  cl.option("--dataloader-type", &data.dataloader_type, "TYPE",
            "single: the data must give all that is trained on; cyclic: it need not",
            one_of({"single", "cyclic"}));
  data.add_validation_to(cl);
  cl.section("Length of the run");
  cl.option("--global-batch-size", &batch.global_batch_size, "N",
            "sequences of a step over all ranks", at_least(1));
  cl.option("--rampup-batch-size", &batch.rampup_batch_size, "START INCREMENT SAMPLES",
            "as mt-pretrain takes it");
  cl.option("--step-batch-size-schedule", &batch.step_batch_size_schedule, "TOKENS:SEQUENCES ...",
            "as mt-pretrain takes it, instead of --global-batch-size");
  length.add_to(cl);
  evaluation.add_to(cl);
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
  DataOptions wanted = options.data;
  wanted.type = sample_type(options.dataset);
  wanted.check_type(concat("--dataset ", options.dataset));
  TrainData data(wanted, false);
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
