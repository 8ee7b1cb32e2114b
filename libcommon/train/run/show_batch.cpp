#include "train/run/show_batch.h"

#include <ostream>

#include "base/json.h"
#include "data/samples/train_data.h"
#include "train/options/run_options.h"
#include "train/run/task.h"

namespace mt {
namespace {

// One sample of the run: its number, and who computes it.
struct Place {
  std::int64_t sample = 0, rank = 0, micro_batch = 0;
};

void write_text(std::ostream& out, const Place& place, const std::vector<std::string>& lines) {
  out << "sample " << place.sample << " of the run: rank " << place.rank << ", micro-batch "
      << place.micro_batch << "\n";
  for (const std::string& line : lines) out << "  " << line << "\n";
}

}  // namespace

void show_batch(const RunOptions& options, Task& task, std::int64_t step, const Log& log,
                std::ostream& out) {
  if (step < 1 || step > options.length.train_iters)
    fail(Exit::bad_config, "step ", step, ": expected 1 to ", options.length.train_iters,
         ", the steps of the run");
  task.build(training_length(options.length, options.batch, {.eval_iters = 0}, false), options.seed,
             options.batch, log);
  std::int64_t first = 0;
  for (std::int64_t i = 1; i < step; ++i) first += options.batch.step_size(first).computed;
  const std::int64_t m = options.batch.micro_batch_size, ranks = options.batch.ranks;
  for (std::int64_t n = 0; n < options.batch.step_size(first).computed; ++n) {
    const Place place{first + n, n / m % ranks, n / (m * ranks)};
    const SampleSet& set = task.training();
    const std::int64_t k = set.order.sample(place.sample).value();
    if (!options.report.json) {
      write_text(out, place, set.samples->lines(k, task.tokenizer()));
      continue;
    }
    JsonWriter json;
    json.begin_object().member("schema", "mt-batch/1").member("step", step);
    json.member("sample", place.sample).member("rank", place.rank);
    json.member("micro_batch", place.micro_batch);
    set.samples->write(k, task.tokenizer(), json);
    out << json.end_object().text() << "\n";
  }
}

}  // namespace mt
