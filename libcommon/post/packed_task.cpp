#include "post/packed_task.h"

#include <cmath>

#include "base/error.h"
#include "data/corpus/bad_lines.h"
#include "model/config/megatron_args.h"
#include "model/model.h"
#include "model/model_table.h"
#include "post/data/example_maker.h"
#include "post/data/read_examples.h"

namespace mt {

PackedTask::PackedTask(const FinetuneOptions& options, Data data)
    : model_(options.model),
      seq_length_(options.seq_length),
      shuffle_(options.data.shuffle),
      has_full_validation_(options.has_full_validation),
      data_(std::move(data)) {}

std::unique_ptr<Model> PackedTask::make_model(const StageRanges& stages,
                                              const TensorPart& part) const {
  return mt::make_model(model_, stages, part);
}

void PackedTask::build(const TrainingLength& length, std::uint64_t seed, const BatchOptions&,
                       const Log&) {
  const auto add = [&](Split which, std::shared_ptr<const Packed> packed,
                       const PackedSamples::Order& order, PastEnd past_end) {
    std::unique_ptr<Samples> samples = make_samples(std::make_unique<PackedSamples>(
        which == Split::train ? "--train-data" : "--valid-data", std::move(packed), order));
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

void PackedTask::describe(DType dtype, PyValue& args) const { add_model_args(model_, dtype, args); }

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

PackedTask::Data read_packed(FinetuneOptions& options, const ExampleOptions& examples,
                             const HowPacked& how, const Log& log) {
  options.data.check(options.run.ranks.has_processes());
  PackedTask::Data data;
  data.words = options.open_tokenizer();
  options.take_vocabulary(*data.words.tokenizer);
  how.check();
  const ExampleMaker maker(*data.words.tokenizer, examples, std::move(data.words.chat_files),
                           data.words.place);
  const bool speaks = options.run.ranks.process.rank <= 0;
  std::vector<std::string> files = options.data.train;
  files.insert(files.end(), options.data.valid.begin(), options.data.valid.end());
  BadLines bad(speaks ? options.data.on_error : "skip", true, files, log);
  ReadOptions read{.files = options.data.train,
                   .longest = how.longest,
                   .longest_target = how.longest_target,
                   .overlong = how.overlong,
                   .together = how.read_together,
                   .held_out = options.data.valid.empty() ? options.data.valid_split : 0,
                   .threads = options.run.ranks.threads};
  const auto packed_of = [&](std::vector<Example> made) -> std::shared_ptr<const Packed> {
    if (made.empty()) return nullptr;
    if (how.prepare) made = how.prepare(std::move(made));
    return std::make_shared<const Packed>(Packed::of(std::move(made), packing_of(how.packing),
                                                     options.seq_length + how.longest_target,
                                                     how.together));
  };
  ExampleSet set = read_examples(read, maker, bad, log);
  data.train = packed_of(std::move(set.train));
  data.valid = packed_of(std::move(set.held_out));
  if (speaks) tell("train", set, *data.train, log);
  if (!options.data.valid.empty()) {
    read.files = options.data.valid;
    read.energon_part = "val";
    set = read_examples(read, maker, bad, log);
    data.valid = packed_of(std::move(set.train));
    if (speaks) tell("valid", set, *data.valid, log);
  }
  bad.commit();
  LengthOptions& length = options.run.length;
  if (length.train_iters == 0 && length.train_samples == 0) {
    data.epochs = options.data.epochs;
    length.data_samples = data.epochs * std::ssize(data.train->bins);
  }
  return data;
}

}  // namespace mt
