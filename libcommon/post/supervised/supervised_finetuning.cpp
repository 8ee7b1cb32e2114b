#include "post/supervised/supervised_finetuning.h"

#include <cmath>

#include "base/error.h"
#include "data/corpus/bad_lines.h"
#include "data/samples/gpt_dataset.h"
#include "model/config/megatron_args.h"
#include "model/model.h"
#include "model/model_table.h"
#include "post/data/read_examples.h"

namespace mt {

SupervisedFinetuning::SupervisedFinetuning(const SftOptions& options)
    : SupervisedFinetuning(options, Data()) {}

SupervisedFinetuning::SupervisedFinetuning(const SftOptions& options, Data data)
    : model_(options.model),
      seq_length_(options.seq_length),
      shuffle_(options.data.shuffle),
      has_full_validation_(options.has_full_validation),
      data_(std::move(data)) {}

std::unique_ptr<Model> SupervisedFinetuning::make_model(const StageRanges& stages,
                                                        const TensorPart& part) const {
  return mt::make_model(model_, stages, part);
}

FieldSpecs SupervisedFinetuning::sample_fields() const { return gpt_fields(seq_length_, true); }

void SupervisedFinetuning::build(const TrainingLength& length, std::uint64_t seed,
                                 const BatchOptions&, const Log&) {
  const auto add = [&](Split which, std::shared_ptr<const Packed> packed,
                       const PackedSamples::Order& order, PastEnd past_end) {
    auto samples = std::make_unique<PackedSamples>(
        which == Split::train ? "--train-data" : "--valid-data", std::move(packed), order);
    const std::int64_t size = samples->size();
    sets_[static_cast<std::size_t>(which)].push_back(std::unique_ptr<SampleSet>(
        new SampleSet{"", std::move(samples), Sampler(size, {.past_end = past_end})}));
  };
  const std::int64_t bins = std::ssize(data_.train->bins);
  const std::int64_t asked = target_samples(length)[0].value_or(bins);
  const std::int64_t epochs = data_.epochs > 0 ? data_.epochs : (asked + bins - 1) / bins;
  add(Split::train, data_.train, {.epochs = epochs, .shuffled = shuffle_, .seed = seed},
      PastEnd::padding);
  if (data_.valid)
    add(Split::valid, data_.valid, {}, has_full_validation_ ? PastEnd::padding : PastEnd::repeat);
}

void SupervisedFinetuning::describe(DType dtype, PyValue& args) const {
  add_model_args(model_, dtype, args);
}

std::unique_ptr<Task> SupervisedFinetuning::changed(const Change& change) const {
  SftOptions options;
  options.model = model_;
  options.seq_length = change.seq_length.value_or(seq_length_);
  if (change.recomputes)
    options.model.recompute = {.granularity = "full", .method = "uniform", .num_layers = 1};
  if (change.tensor_ranks)
    complete_model(options.model, options.seq_length, *change.tensor_ranks);
  else if (change.recomputes)
    options.model.recompute.complete(options.model.num_layers);
  return std::make_unique<SupervisedFinetuning>(options);
}

static std::shared_ptr<const Packed> packed_of(std::vector<Example> examples,
                                               const SftOptions& options) {
  if (examples.empty()) return nullptr;
  return std::make_shared<const Packed>(
      Packed::of(std::move(examples), packing_of(options.packing), options.seq_length));
}

// What was read, and what became of it.
static void tell(const char* split, const ExampleSet& set, const Packed& made, const Log& log) {
  std::int64_t tokens = 0, learnt = 0;
  for (const Example& example : made.examples) {
    tokens += example.size();
    learnt += example.targets();
  }
  log.event("data", {{"split", split},
                     {"lines", set.lines},
                     {"unusable", set.bad},
                     {"too_long", set.too_long},
                     {"nothing_learnt", set.without_targets},
                     {"texts", std::ssize(made.examples)},
                     {"tokens", tokens},
                     {"learnt", learnt},
                     {"samples", std::ssize(made.bins)},
                     {"filled", std::round(made.filled() * 1000) / 1000}});
}

std::unique_ptr<SupervisedFinetuning> open_sft(SftOptions& options, const Log& log) {
  options.data.check(options.run.ranks.has_processes());
  SupervisedFinetuning::Data data;
  data.words = options.open_tokenizer();
  options.take_vocabulary(*data.words.tokenizer);
  if (options.seq_length == 0) fail(Exit::usage, "--seq-length: required");
  const ExampleMaker maker(*data.words.tokenizer, options.examples,
                           std::move(data.words.chat_files), data.words.place);
  const bool speaks = options.run.ranks.process.rank <= 0;
  std::vector<std::string> files = options.data.train;
  files.insert(files.end(), options.data.valid.begin(), options.data.valid.end());
  BadLines bad(speaks ? options.data.on_error : "skip", true, files, log);
  ReadOptions read{.files = options.data.train,
                   .longest = options.longest_text(),
                   .overlong = options.overlong,
                   .held_out = options.data.valid.empty() ? options.data.valid_split : 0,
                   .threads = options.run.ranks.threads};
  ExampleSet set = read_examples(read, maker, bad, log);
  data.train = packed_of(std::move(set.train), options);
  data.valid = packed_of(std::move(set.held_out), options);
  if (speaks) tell("train", set, *data.train, log);
  if (!options.data.valid.empty()) {
    read.files = options.data.valid;
    set = read_examples(read, maker, bad, log);
    data.valid = packed_of(std::move(set.train), options);
    if (speaks) tell("valid", set, *data.valid, log);
  }
  bad.commit();
  LengthOptions& length = options.run.length;
  if (length.train_iters == 0 && length.train_samples == 0) {
    data.epochs = options.data.epochs;
    length.data_samples = data.epochs * std::ssize(data.train->bins);
  }
  options.complete();
  return std::make_unique<SupervisedFinetuning>(options, std::move(data));
}

}  // namespace mt
