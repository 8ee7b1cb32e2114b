#include "train/run/show_batch.h"

#include <ostream>

#include "base/json.h"
#include "data/samples/token_sequences.h"
#include "data/samples/train_data.h"
#include "train/options/run_options.h"
#include "train/run/task.h"

namespace mt {
namespace {

// One sample of the run: its number, and who computes it.
struct Place {
  std::int64_t sample = 0, rank = 0, micro_batch = 0;
};

std::string text_of(const Samples::Part& part, const Tokenizer& tokenizer) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(part.end - part.begin));
  part.file->read(part.sequence, part.begin, tokens);
  return tokenizer.decode_text(std::vector<std::int32_t>(tokens.begin(), tokens.end()));
}

void write_text(std::ostream& out, const Place& place, const std::vector<Samples::Part>& parts,
                const Tokenizer& tokenizer) {
  out << "sample " << place.sample << " of the run: rank " << place.rank << ", micro-batch "
      << place.micro_batch << "\n";
  for (const Samples::Part& part : parts) {
    const std::int64_t document = part.file->document_of(part.sequence);
    out << "  " << part.file->name() << ", document " << document;
    if (document != part.sequence) out << " (sequence " << part.sequence << ")";
    JsonWriter text;  // on one line, whatever it holds
    text.value(text_of(part, tokenizer));
    out << ", tokens " << part.begin << " to " << part.end << ": " << text.text() << "\n";
  }
}

void write_json(std::ostream& out, std::int64_t step, const Place& place,
                const std::vector<Samples::Part>& parts, const Tokenizer& tokenizer) {
  JsonWriter json;
  json.begin_object().member("schema", "mt-batch/1").member("step", step);
  json.member("sample", place.sample).member("rank", place.rank);
  json.member("micro_batch", place.micro_batch).key("parts").begin_array();
  for (const Samples::Part& part : parts)
    json.begin_object()
        .member("file", part.file->name())
        .member("document", part.file->document_of(part.sequence))
        .member("sequence", part.sequence)
        .member("begin", part.begin)
        .member("end", part.end)
        .member("text", text_of(part, tokenizer))
        .end_object();
  json.end_array().end_object();
  out << json.text() << "\n";
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
    const auto parts = set.samples->parts(set.order.sample(place.sample).value());
    if (options.report.json)
      write_json(out, step, place, parts, task.tokenizer());
    else
      write_text(out, place, parts, task.tokenizer());
  }
}

}  // namespace mt
