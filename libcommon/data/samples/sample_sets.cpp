#include "data/samples/sample_sets.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/progress.h"
#include "base/threads.h"
#include "data/samples/blended.h"

namespace mt {

// --- Reading ------------------------------------------------------------------------------------

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
  const auto make = [&](std::int64_t i) {
    Fields sample;
    for (const FieldSpec& spec : set.samples->fields())
      if (const Tensor& all = batch[spec.field])
        sample[spec.field] = all.rows(i * spec.per_sample, (i + 1) * spec.per_sample);
    fill_sample(set, first + i, sample);
  };
  if (set.samples->takes_long()) return parallel_for_ordered_errors(sequences, make);
  for (std::int64_t i = 0; i < sequences; ++i) make(i);
}

// --- Making -------------------------------------------------------------------------------------

namespace {

struct SetPlan {
  Split which = Split::train;
  std::string name = {};
  BlendPlan blend = {};
  std::vector<SamplePart> parts = {};
};

// Which parts of which files make which set.
class Planner {
 public:
  Planner(const SampleKind& kind, const DataSources& sources, const SetRequest& request,
          const Log& log)
      : kind_(kind),
        sources_(sources),
        request_(request),
        prefixes_(sources.prefixes()),
        log_(log) {}

  std::vector<SetPlan> plan() {
    if (request_.multiple_validation_sets && !sources_.split_blends[1])
      fail(Exit::usage, "--multiple-validation-sets: needs --valid-data-path");
    const auto samples = target_samples(request_.length);
    for (int i = 0; i < kSplits; ++i)
      if (samples[i] != 0) plan_split(static_cast<Split>(i), samples[i]);
    if (!request_.length.skip_train && (plans_.empty() || plans_.front().which != Split::train))
      fail(Exit::bad_config, sources_.split_option, " ", sources_.split,
           ": leaves nothing to train on");
    return std::move(plans_);
  }

 private:
  void plan_split(Split which, std::optional<std::int64_t> samples) {
    const auto& own = sources_.split_blends[static_cast<std::size_t>(which)];
    if (sources_.mock) {
      SetPlan plan{.which = which};
      plan.blend.alone = true;
      plan.blend.samples = samples;
      plan.parts.push_back({.samples = samples});
      return add(std::move(plan));
    }
    if (sources_.blend) return add(plan_set(which, *sources_.blend, samples));
    if (!own) return;
    if (which != Split::valid || !request_.multiple_validation_sets)
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

  // Which files, weights and numbers of samples; the items follow in cut().
  SetPlan plan_set(Split which, const Blend& blend, std::optional<std::int64_t> samples) const {
    const bool alone = blend.prefixes.size() == 1 && !sources_.blend;
    if (!blend.weights.empty() && !samples && !alone)
      fail(Exit::bad_config, "--full-validation: ", blend.prefixes.front(),
           " has a weight, which says nothing when all is read once");
    SetPlan plan{.which = which};
    plan.blend = plan_blend(blend, samples, sources_.blend.has_value());
    for (std::size_t d = 0; d < blend.prefixes.size(); ++d) {
      const auto file = std::ranges::find(prefixes_, blend.prefixes[d]) - prefixes_.begin();
      plan.parts.push_back({.file = static_cast<std::size_t>(file), .samples = plan.blend.each[d]});
    }
    return plan;
  }

  void add(SetPlan plan) {
    if (cut(plan)) plans_.push_back(std::move(plan));
  }

  // Gives the parts their items.  False where the split has no share, or where the default shares
  // leave a small file nothing to evaluate on.
  bool cut(SetPlan& plan) const {
    const auto which = static_cast<std::size_t>(plan.which);
    for (SamplePart& part : plan.parts) {
      const std::int64_t all = kind_.items(part.file);
      if (!sources_.blend && !sources_.mock) {
        part.items = {0, all};
        continue;
      }
      const auto range = split_ranges(sources_.split_option, sources_.split, all)[which];
      if (!range) return false;
      part.items = *range;
      if (range->size() > 0) continue;
      const std::string what =
          concat(sources_.split_option, " ", sources_.split, ": leaves none of the ", all, " ",
                 kind_.item_name(), " of ", kind_.file_name(part.file), " to ", kSplitNames[which]);
      if (plan.which == Split::train && all == 0)
        fail(Exit::bad_data, kind_.file_name(part.file), ": holds no ", kind_.item_name(),
             ", expected at least one");
      if (plan.which == Split::train || !sources_.split_is_default || !plan.blend.alone)
        fail(Exit::bad_config, what, ", expected a larger share",
             plan.which == Split::train ? "" : ", or 0");
      log_.warn(what);
      return false;
    }
    return true;
  }

  const SampleKind& kind_;
  const DataSources& sources_;
  const SetRequest& request_;
  std::vector<std::string> prefixes_;
  const Log& log_;
  std::vector<SetPlan> plans_;
};

// Training reads at most one epoch of files that are blended without weights.
void check_epoch(const SetPlan& plan, const Blended::Datasets& datasets,
                 const DataSources& sources) {
  std::int64_t all = 0;
  for (const auto& dataset : datasets) all += dataset->size();
  if (all < *plan.blend.samples)
    fail(Exit::bad_config, sources.prefixes().front(),
         " and others: one epoch without weights gives ", all, " samples, training needs ",
         *plan.blend.samples, "; weights before the prefixes repeat them");
}

}  // namespace

void SampleSets::build(const SampleKind& kind, const DataSources& sources,
                       const SetRequest& request, const Log& log,
                       const std::function<void()>& poll) {
  const std::vector<SetPlan> plans = Planner(kind, sources, request, log).plan();
  struct Job {
    const SamplePart& part;
    std::unique_ptr<Samples> made = nullptr;
  };
  std::vector<Job> jobs;
  std::int64_t bytes = 0;
  for (const SetPlan& plan : plans)
    for (const SamplePart& part : plan.parts) {
      jobs.push_back({part});
      bytes += kind.index_bytes(part);
    }
  const IndexCache cache =
      request.cache_path.empty() ? IndexCache() : IndexCache(request.cache_path, log);
  Progress progress(log, "indexing", "bytes", static_cast<std::uint64_t>(bytes));
  const IndexCache reporting = cache.reporting([&](std::uint64_t done) {
    progress.add(done);
    poll();
  });
  Workers(request.threads).run([&] {
    parallel_for_ordered_errors(std::ssize(jobs), [&](std::int64_t i) {
      Job& job = jobs[static_cast<std::size_t>(i)];
      job.made = kind.make(job.part, reporting);
    });
  });
  progress.finish();
  auto job = jobs.begin();
  for (const SetPlan& plan : plans) {
    Blended::Datasets datasets;
    for (std::size_t i = 0; i < plan.parts.size(); ++i)
      datasets.push_back(std::move((job++)->made));
    const bool trains = plan.which == Split::train;
    if (trains && !plan.blend.alone && plan.blend.weights.empty() &&
        request.layout.type == "single")
      check_epoch(plan, datasets, sources);
    auto samples = std::make_unique<Blended>(std::move(datasets), plan.blend, cache);
    SamplerOptions order = request.layout;
    if (!trains) order.past_end = PastEnd::repeat;
    if (!trains && !plan.blend.samples) order = {.past_end = PastEnd::padding};  // all of it, once
    const std::int64_t size = samples->size();
    sets_[static_cast<std::size_t>(plan.which)].push_back(std::unique_ptr<SampleSet>(
        new SampleSet{plan.name, std::move(samples), Sampler(size, order)}));
  }
}

void SampleSets::replace(
    const std::function<std::unique_ptr<Samples>(Split, std::unique_ptr<Samples>)>& with) {
  for (std::size_t i = 0; i < sets_.size(); ++i)
    for (const auto& set : sets_[i])
      set->samples = with(static_cast<Split>(i), std::move(set->samples));
}

}  // namespace mt
