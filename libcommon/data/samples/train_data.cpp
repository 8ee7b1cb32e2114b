#include "data/samples/train_data.h"

#include <algorithm>
#include <filesystem>

#include "base/command.h"
#include "base/progress.h"
#include "base/threads.h"
#include "data/files/indexed_dataset.h"
#include "data/samples/blended_samples.h"
#include "data/samples/mock_tokens.h"
#include "text/null_tokenizer.h"

namespace mt {

void DataOptions::add_samples_to(CommandLine& cl) {
  sources.add_to(cl);
  cl.option("--seq-length", &seq_length, "N", "tokens of a sample", at_least(1));
}

void DataOptions::add_validation_to(CommandLine& cl) {
  cl.flag("--full-validation", &full_validation,
          "evaluate on all of the validation data, once, instead of --eval-iters");
  cl.flag("--multiple-validation-sets", &multiple_validation_sets,
          "a loss for each of several --valid-data-path");
}

void DataOptions::add_to(CommandLine& cl) {
  cl.section("Data");
  add_samples_to(cl);
  cl.option("--data-cache-path", &cache_path, "DIR",
            "keep indexes there and map them in later runs; default: made in memory each time");
  cl.option("--dataloader-type", &dataloader_type, "TYPE",
            "single: samples in order, once; cyclic: epochs, each in an order of its own",
            one_of({"single", "cyclic"}));
  cl.off_switch("--no-data-sharding", &data_sharding,
                "cyclic: one order over all samples, not one over each rank's");
  cl.flag("--reset-position-ids", &reset_position_ids,
          "positions start again after an end of document");
  cl.flag("--reset-attention-mask", &reset_attention_mask,
          "no token attends to what is before the last end of document");
  cl.off_switch("--no-create-attention-mask-in-dataloader", &attention_mask_in_dataloader,
                "not with --reset-attention-mask; no matrix of a mask is made in any case");
  cl.flag("--eod-mask-loss", &eod_mask_loss,
          "predictions made after an end of document do not count");
  add_validation_to(cl);
  cl.section("Tokenizer");
  tokenizer.add_to(cl);
  tokenizer.add_extra_ids_to(cl);
}

LoadedTokenizer run_tokenizer(const DataOptions& options) {
  TokenizerOptions tokenizer = options.tokenizer;
  if (options.sources.mock_data && tokenizer.type.empty()) tokenizer.type = NullTokenizer::kType;
  const std::vector<std::string> prefixes = names_a_source(options.sources)
                                                ? read_sources(options.sources).prefixes()
                                                : std::vector<std::string>();
  return shared_tokenizer(prefixes, tokenizer);
}

static void fill_sample(const SampleSet& set, std::int64_t number, const Fields& sample) {
  const auto k = set.order.sample(number);
  Fields read = sample;  // where numbers are read to, those of f64 as the dataset has them
  std::vector<std::vector<float>> narrow;
  for (const FieldSpec& spec : set.samples->fields())
    if (const Tensor& to = sample[spec.field]; to && to.dtype() != spec.dtype) {
      std::vector<float>& numbers = narrow.emplace_back(static_cast<std::size_t>(to.numel()));
      read[spec.field] = Tensor(numbers.data(), DType::f32, to.shape());
    }
  set.samples->get(k.value_or(0), read);
  for (const FieldSpec& spec : set.samples->fields()) {
    const Tensor& to = sample[spec.field];
    if (!to || spec.dtype != DType::f32) continue;
    with_float_type(to.dtype(), [&]<class T>() {
      if (!k)
        std::ranges::fill(to.span<T>(), T(0));
      else if (to.data() != read[spec.field].data())
        std::ranges::copy(read.span<float>(spec.field), to.as<T>());
    });
  }
}

void fill(const SampleSet& set, std::int64_t first, std::int64_t sequences, const Fields& batch) {
  for (std::int64_t i = 0; i < sequences; ++i) {
    Fields sample;
    for (const FieldSpec& spec : set.samples->fields())
      if (const Tensor& all = batch[spec.field])
        sample[spec.field] = all.rows(i * spec.per_sample, (i + 1) * spec.per_sample);
    fill_sample(set, first + i, sample);
  }
}

// A token file's share of a set.
struct TrainData::Part {
  std::size_t file = 0;
  ItemRange range = {};
  std::optional<std::int64_t> samples = {};  // absent: one epoch
};

struct TrainData::SetPlan {
  Split which = Split::train;
  std::string name = {};
  std::vector<Part> parts = {};
  bool alone = false;                        // one part, without a blending index
  std::vector<double> weights = {};          // empty: by sizes
  std::optional<std::int64_t> samples = {};  // asked for; absent: one epoch
};

TrainData::TrainData(const DataOptions& options, bool read_tokens)
    : options_(options),
      sources_(read_sources(options.sources)),
      tokenizer_(read_tokens ? run_tokenizer(options) : LoadedTokenizer()),
      prefixes_(sources_.prefixes()) {
  if (options_.reset_attention_mask && !options_.attention_mask_in_dataloader)
    fail(Exit::usage,
         "--reset-attention-mask: has no effect with --no-create-attention-mask-in-dataloader");
  std::error_code error;
  if (std::filesystem::exists(options_.cache_path, error) &&
      !std::filesystem::is_directory(options_.cache_path, error))
    fail(Exit::cannot_create, options_.cache_path, ": is a file, expected a folder for indexes");
  open_files();
}

void TrainData::open_files() {
  if (sources_.mock) {
    files_.push_back(std::make_unique<MockTokens>(vocab_size(), eod()));
    return;
  }
  files_.resize(prefixes_.size());
  const KnownFiles known(options_.cache_path);
  Workers(options_.threads).run([&] {
    parallel_for_ordered_errors(std::ssize(prefixes_), [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      files_[at] = std::make_unique<IndexedDataset>(prefixes_[at], known);
    });
  });
}

std::size_t TrainData::file_of(const std::string& prefix) const {
  return static_cast<std::size_t>(std::ranges::find(prefixes_, prefix) - prefixes_.begin());
}

// Which files, weights and numbers of samples; the ranges follow in cut().
TrainData::SetPlan TrainData::plan_set(Split which, const Blend& blend,
                                       std::optional<std::int64_t> samples) const {
  SetPlan plan{.which = which, .samples = samples};
  const bool one = blend.prefixes.size() == 1;
  plan.alone = one && (blend.weights.empty() || !sources_.blend);
  if (plan.alone) {
    plan.parts.push_back({.file = file_of(blend.prefixes.front()), .samples = samples});
    return plan;
  }
  if (!blend.weights.empty() && !samples)
    fail(Exit::bad_config, "--full-validation: ", blend.prefixes.front(),
         " has a weight, which says nothing when all is read once");
  if (!blend.weights.empty()) plan.weights = normalized(blend.weights);
  if (!blend.weights.empty()) plan.samples = 0;
  for (std::size_t d = 0; d < blend.prefixes.size(); ++d) {
    Part part{.file = file_of(blend.prefixes[d])};
    if (!plan.weights.empty()) {
      part.samples = blend_build_size(*samples, plan.weights[d]);
      *plan.samples += blend_target(*samples, plan.weights[d]);
    }
    plan.parts.push_back(part);
  }
  return plan;
}

// Gives the parts their sequences.  False where the split has no share, or where the default shares
// leave a small file nothing to evaluate on.
bool TrainData::cut(SetPlan& plan, const Log& log) const {
  const auto which = static_cast<std::size_t>(plan.which);
  for (Part& part : plan.parts) {
    const std::int64_t all = files_[part.file]->sequences();
    if (!sources_.blend && !sources_.mock) {
      part.range = {0, all};
      continue;
    }
    const auto range = split_ranges(sources_.split, all)[which];
    if (!range) return false;
    part.range = *range;
    if (range->size() > 0) continue;
    const std::string what =
        concat("--split ", sources_.split, ": leaves none of the ", all, " sequences of ",
               files_[part.file]->name(), " to ", kSplitNames[which]);
    if (plan.which == Split::train && all == 0)
      fail(Exit::bad_data, files_[part.file]->name(),
           ": holds no sequences, expected at least one");
    if (plan.which == Split::train || !sources_.split_is_default || !plan.alone)
      fail(Exit::bad_config, what, ", expected a larger share",
           plan.which == Split::train ? "" : ", or 0");
    log.warn(what);
    return false;
  }
  return true;
}

void TrainData::plan_split(Split which, std::optional<std::int64_t> samples,
                           std::vector<SetPlan>& plans, const Log& log) const {
  const auto& own = sources_.split_blends[static_cast<std::size_t>(which)];
  const auto add = [&](SetPlan plan) {
    if (cut(plan, log)) plans.push_back(std::move(plan));
  };
  if (sources_.mock)
    return add(
        {.which = which, .parts = {{.samples = samples}}, .alone = true, .samples = samples});
  if (sources_.blend) return add(plan_set(which, *sources_.blend, samples));
  if (!own) return;
  if (which != Split::valid || !options_.multiple_validation_sets)
    return add(plan_set(which, *own, samples));
  if (!own->weights.empty())
    fail(Exit::bad_config, "--multiple-validation-sets: ", own->prefixes.front(),
         " has a weight, but each set is evaluated by itself");
  for (const std::string& prefix : own->prefixes) {
    SetPlan plan = plan_set(which, {{prefix}, {}}, samples);
    plan.name = std::filesystem::path(prefix).filename().string();
    add(std::move(plan));
  }
}

std::unique_ptr<SampleSet> TrainData::make_set(const SetPlan& plan,
                                               std::vector<GptDataset> datasets,
                                               const SamplerOptions& layout,
                                               const IndexCache& cache) const {
  const auto make = [&](BlendedDataset data) {
    SamplerOptions order = layout;
    if (plan.which != Split::train) order.past_end = PastEnd::repeat;
    if (plan.which != Split::train && !plan.samples)
      order = {.past_end = PastEnd::padding};  // all of it, once
    auto samples = std::make_unique<BlendedSamples<GptDataset>>(std::move(data));
    const std::int64_t size = samples->size();
    return std::unique_ptr<SampleSet>(
        new SampleSet{plan.name, std::move(samples), Sampler(size, order)});
  };
  if (plan.alone) return make(BlendedDataset(std::move(datasets.front())));
  std::optional<std::int64_t> samples = plan.samples;
  std::vector<double> weights = plan.weights;
  if (weights.empty()) {
    std::int64_t all = 0;
    for (const GptDataset& dataset : datasets) {
      weights.push_back(static_cast<double>(dataset.size()));
      all += dataset.size();
    }
    if (samples) samples = std::min(*samples, all);
  }
  if (plan.which == Split::train && *samples < *plan.samples && layout.type == "single")
    fail(Exit::bad_config, prefixes_.front(), " and others: one epoch without weights gives ",
         *samples, " samples, training needs ", *plan.samples,
         "; weights before the prefixes repeat them");
  return make(BlendedDataset(std::move(datasets), std::move(weights), samples, cache));
}

GptDatasetOptions TrainData::dataset_options(const Part& part, std::uint64_t seed) const {
  return {.index = {.sequences = part.range,
                    .seq_length = options_.seq_length,
                    .seed = static_cast<std::uint32_t>(seed),
                    .num_samples = part.samples},
          .eod_id = eod(),
          .vocab_size = vocab_size(),
          .reset_position_ids = options_.reset_position_ids,
          .reset_attention_mask = options_.reset_attention_mask,
          .eod_mask_loss = options_.eod_mask_loss};
}

void TrainData::build(const TrainingLength& length, std::uint64_t seed,
                      const SamplerOptions& layout, const Log& log,
                      const std::function<void()>& poll) {
  if (options_.multiple_validation_sets && !sources_.split_blends[1])
    fail(Exit::usage, "--multiple-validation-sets: needs --valid-data-path");
  const auto samples = target_samples(length);
  std::vector<SetPlan> plans;
  for (int i = 0; i < kSplits; ++i)
    if (samples[i] != 0) plan_split(static_cast<Split>(i), samples[i], plans, log);
  if (!length.skip_train && (plans.empty() || plans.front().which != Split::train))
    fail(Exit::bad_config, "--split ", sources_.split, ": leaves nothing to train on");

  struct Job {
    const TokenSequences& data;
    GptDatasetOptions options;
    std::optional<GptDataset> made = {};
  };
  std::vector<Job> jobs;
  std::int64_t bytes = 0;
  for (const SetPlan& plan : plans)
    for (const Part& part : plan.parts) {
      jobs.push_back({*files_[part.file], dataset_options(part, seed)});
      bytes += GptIndex::bytes(jobs.back().data, jobs.back().options.index);
    }
  const IndexCache cache =
      options_.cache_path.empty() ? IndexCache() : IndexCache(options_.cache_path, log);
  Progress progress(log, "indexing", "bytes", static_cast<std::uint64_t>(bytes));
  const IndexCache reporting = cache.reporting([&](std::uint64_t done) {
    progress.add(done);
    poll();
  });
  Workers(options_.threads).run([&] {
    parallel_for_ordered_errors(std::ssize(jobs), [&](std::int64_t i) {
      Job& job = jobs[static_cast<std::size_t>(i)];
      job.made.emplace(job.data, job.options, reporting);
    });
  });
  progress.finish();
  auto job = jobs.begin();
  for (const SetPlan& plan : plans) {
    std::vector<GptDataset> datasets;
    for (std::size_t i = 0; i < plan.parts.size(); ++i)
      datasets.push_back(std::move(*(job++)->made));
    sets_[static_cast<std::size_t>(plan.which)].push_back(
        make_set(plan, std::move(datasets), layout, cache));
  }
}

}  // namespace mt
