#include "post/preferences/preference_task.h"

#include <algorithm>

#include "base/command.h"
#include "base/error.h"
#include "post/check_before_data.h"
#include "post/preferences/preference_samples.h"
#include "post/verbs.h"
#include "train/run/training_command.h"

namespace mt {

static std::int64_t most_pairs(const PackedTask::Data& data) {
  std::int64_t most = 1;
  for (const auto* packed : {&data.train, &data.valid})
    if (*packed) most = std::max(most, mt::most_pairs(**packed));
  return most;
}

PreferenceTask::PreferenceTask(const PreferenceOptions& options, Data from)
    : PackedTask(options, std::move(from)),
      options_(options),
      pairs_(mt::most_pairs(data())),
      objective_(options.rules, options.seq_length, pairs_),
      train_(std::make_shared<std::vector<double>>()),
      valid_(std::make_shared<std::vector<double>>()) {}

FieldSpecs PreferenceTask::sample_fields() const { return preference_fields(seq_length(), pairs_); }

std::unique_ptr<Samples> PreferenceTask::make_samples(std::unique_ptr<PackedSamples> packed) const {
  const auto& reference = &packed->packed() == data().train.get() ? train_ : valid_;
  return std::make_unique<PreferenceSamples>(std::move(packed), pairs_, reference);
}

void PreferenceTask::build(const TrainingLength& length, std::uint64_t seed,
                           const BatchOptions& batch, const Log& log) {
  PackedTask::build(length, seed, batch, log);
  if (!options_.needs_reference()) return;
  for (const auto* packed : {&data().train, &data().valid}) {
    if (!*packed) continue;
    const bool shuffled = options_.data.shuffle && packed == &data().train;
    auto samples = make_samples(std::make_unique<PackedSamples>(
        "reference", *packed, PackedSamples::Order{.shuffled = shuffled, .seed = seed}));
    const std::int64_t size = samples->size();
    referenced_.emplace_back(
        new SampleSet{"", std::move(samples), Sampler(size, {.past_end = PastEnd::padding})});
  }
}

// What was said of a set's samples, in the order of their bins.
std::vector<double> PreferenceTask::by_bins(const SampleSet& set,
                                            std::span<const double> said) const {
  const auto& samples = static_cast<const PreferenceSamples&>(*set.samples);
  const auto each = static_cast<std::size_t>(2 * pairs_);
  std::vector<double> all(said.size());
  for (std::size_t k = 0; k * each < said.size(); ++k)
    std::ranges::copy(said.subspan(k * each, each),
                      all.begin() + static_cast<std::ptrdiff_t>(
                                        samples.bin(static_cast<std::int64_t>(k)) * each));
  return all;
}

// A run that goes on has it from its folder, because its model is another by now.
void PreferenceTask::begin(std::int64_t iteration, const Scorer& score) const {
  if (referenced_.empty()) return;
  std::vector<std::vector<double>> said;
  for (const auto& set : referenced_)
    said.push_back(iteration == 0 ? by_bins(*set, score(*set))
                                  : std::vector<double>(static_cast<std::size_t>(
                                        set->samples->size() * objective_.scores())));
  std::call_once(known_, [&] {
    said.resize(2);
    Reference reference{.train = std::move(said[0]), .valid = std::move(said[1])};
    const CheckpointOptions& checkpoint = options_.run.checkpoint;
    const std::string hash = hash_of(*data().train, data().valid.get());
    if (iteration > 0) reference.read(checkpoint.load, hash);
    if (!checkpoint.save.empty() && options_.run.ranks.process.rank <= 0)
      reference.write(checkpoint.save, hash);
    *train_ = std::move(reference.train);
    *valid_ = std::move(reference.valid);
  });
}

std::unique_ptr<Task> PreferenceTask::changed(const Change& change) const {
  PreferenceOptions options = options_;
  mt::change(options.model, options.seq_length, change);
  return std::make_unique<PreferenceTask>(options);
}

std::unique_ptr<PreferenceTask> open_preferences(PreferenceOptions& options, const Log& log) {
  const bool single = options.examples.judged == Judged::single;
  HowPacked how{.check = [&] { check_before_data(options); },
                .packing = options.packing,
                .overlong = options.overlong,
                .longest = single ? options.seq_length / 2 : options.seq_length,
                .read_together = single ? 1 : 2,
                .together = 2};
  if (single)
    how.prepare = [&](std::vector<Example> texts) {
      return with_others_completions(std::move(texts), options.run.batch.micro_batch_size,
                                     options.seq_length);
    };
  PackedTask::Data data = read_packed(options, options.examples, how, log);
  options.complete();
  return std::make_unique<PreferenceTask>(options, std::move(data));
}

static void finetune_preferences(CommandLine& cl, bool rewards) {
  PreferenceOptions options(rewards);
  cl.first_run({"--load", "--train-data", "--seq-length", "--global-batch-size", "--epochs", "--lr",
                "--save"});
  options.add_to(cl);
  options.parse(cl);
  options.take_losses();
  if (!rewards) options.check_unused(cl);
  if (options.is_planned()) {
    options.take_vocabulary_to_plan();
    return print_plan(options.run, options.plan, cl.log(), [&] {
      options.plan.search ? options.complete_adapters() : options.complete();
      return std::make_unique<PreferenceTask>(options);
    });
  }
  run_training(cl, options.run, options.check_layout,
               [&] { return open_preferences(options, cl.log()); });
}

void finetune_dpo(CommandLine& cl) {
  cl.describe("Learn which of two texts is preferred, or which texts are wanted.",
              "Takes the options of sft, but those of kinds of lines and of Mambas.");
  finetune_preferences(cl, false);
}

void finetune_reward(CommandLine& cl) {
  cl.describe("Learn to say how good a text is, from pairs of which one is preferred.",
              "Takes the options of dpo, but those of its losses.");
  finetune_preferences(cl, true);
}

}  // namespace mt
