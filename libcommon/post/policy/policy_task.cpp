#include "post/policy/policy_task.h"

#include <algorithm>

#include "base/command.h"
#include "post/check_before_data.h"
#include "post/policy/drawing_task.h"
#include "post/policy/policy_samples.h"
#include "post/preferences/reference.h"
#include "post/verbs.h"
#include "train/run/training_command.h"

namespace mt {

PolicyTask::PolicyTask(const PolicyOptions& options, Data from, Rollouts rollouts)
    : PackedTask(options, std::move(from)),
      options_(options),
      objective_(options.rules, options.how_counted()),
      rollouts_(std::move(rollouts)),
      reference_(std::make_shared<std::vector<double>>()) {}

FieldSpecs PolicyTask::sample_fields() const {
  return policy_fields(seq_length(), options_.packed(), options_.has_values(), options_.choices());
}

std::unique_ptr<Samples> PolicyTask::make_samples(std::unique_ptr<PackedSamples> packed) const {
  auto samples = std::make_unique<PolicySamples>(std::move(packed), rollouts_, reference_,
                                                 options_.how_learnt());
  samples_ = samples.get();
  return samples;
}

// Rollouts that bring the reference bring it all.
bool PolicyTask::asks_reference() const {
  return options_.has_reference() &&
         std::ranges::any_of(*rollouts_, [](const Rollout& one) { return one.reference.empty(); });
}

void PolicyTask::build(const TrainingLength& length, std::uint64_t seed, const BatchOptions& batch,
                       const Log& log) {
  PackedTask::build(length, seed, batch, log);
  if (!asks_reference()) return;
  auto samples = samples_to_score(rollouts_, seq_length(), options_.how_learnt());
  referenced_samples_ = samples.get();
  const std::int64_t size = samples->size();
  referenced_ = std::unique_ptr<SampleSet>(
      new SampleSet{"", std::move(samples), Sampler(size, {.past_end = PastEnd::padding})});
}

// They are of the texts together that were drawn together.
static void take_all_advantages(std::span<Rollout> rollouts, const PolicyOptions& options) {
  const auto batch = static_cast<std::size_t>(options.texts_at_once());
  for (std::size_t first = 0; first < rollouts.size(); first += batch)
    take_advantages(rollouts.subspan(first, std::min(batch, rollouts.size() - first)),
                    options.num_generations, options.advantages);
}

// A run that goes on has it from its folder, because its model is another by now.
void PolicyTask::begin(std::int64_t iteration, const Scorer& score) const {
  if (!referenced_) return;
  std::vector<double> said =
      iteration == 0
          ? referenced_samples_->of_texts(score(*referenced_))
          : std::vector<double>(rollouts_->size() * static_cast<std::size_t>(seq_length()));
  std::call_once(known_, [&] {
    Reference reference{.train = std::move(said), .valid = {}};
    const CheckpointOptions& checkpoint = options_.run.checkpoint;
    const std::string hash = hash_of(*data().train, nullptr);
    if (iteration > 0) reference.read(checkpoint.load, hash);
    if (!checkpoint.save.empty() && options_.run.ranks.process.rank <= 0)
      reference.write(checkpoint.save, hash);
    *reference_ = std::move(reference.train);
    if (options_.advantages.beta > 0) take_reference();
  });
}

// Advantages that the divergence is a part of wait for what the model says.
void PolicyTask::take_reference() const {
  for (std::size_t i = 0; i < rollouts_->size(); ++i) {
    Rollout& one = (*rollouts_)[i];
    const auto said = std::span(*reference_).subspan(i * static_cast<std::size_t>(seq_length()));
    one.reference.clear();
    one.for_each_learnt([&](std::size_t, std::size_t token) {
      one.reference.push_back(static_cast<float>(said[token - 1]));
    });
  }
  take_all_advantages(*rollouts_, options_);
}

std::unique_ptr<Task> PolicyTask::changed(const Change& change) const {
  PolicyOptions options = options_;
  mt::change(options.model, options.seq_length, change);
  if (change.tensor_ranks) {
    options.run.ranks.parallel.tensor_model_parallel_size = *change.tensor_ranks;
    if (!options.prompts.empty()) options.check_shares();
  }
  if (change.context_ranks) {
    options.run.ranks.parallel.context_parallel_size = *change.context_ranks;
    options.check_contexts();
  }
  return std::make_unique<PolicyTask>(options);
}

// What was read.
static void tell(std::span<const Rollout> rollouts, std::int64_t group, const Log& log) {
  std::int64_t tokens = 0, learnt = 0;
  std::vector<double> all;
  for (const Rollout& one : rollouts) {
    tokens += one.text.size();
    learnt += one.text.targets();
    all.push_back(one.reward);
  }
  const RewardCount rewards = count_rewards(all);
  log.event("data", {{"split", "train"},
                     {"texts", std::ssize(rollouts)},
                     {"prompts", std::ssize(rollouts) / group},
                     {"tokens", tokens},
                     {"learnt", learnt},
                     {"without_reward", rewards.without},
                     {"reward", rewards.mean}});
}

// Texts that several steps learn from were written by a policy that only the first of them is.
static void check_passes(std::span<const Rollout> rollouts, const PolicyOptions& options) {
  if (!options.needs_old()) return;
  if (std::ssize(rollouts) % options.texts_at_once() != 0)
    fail(Exit::bad_data, "--rollouts: ", rollouts.size(), " texts, no multiple of the ",
         options.texts_at_once(), " that steps learn from together");
  if (const auto one = std::ranges::find_if(rollouts, [](const auto& r) { return r.old.empty(); });
      one != rollouts.end())
    fail(Exit::bad_data, one->text.file, ":", one->text.line,
         ": no \"old_log_probs\" and no \"log_probs\", of which texts have one that several steps "
         "learn from");
}

// Where the divergence is a part of advantages, which are of what the policy said of each text, or
// is weighed by it.
static void check_old(std::span<const Rollout> rollouts, const PolicyOptions& options) {
  if (options.advantages.beta == 0 && !options.needs_generated()) return;
  if (const auto one = std::ranges::find_if(rollouts, [](const auto& r) { return r.old.empty(); });
      one != rollouts.end())
    fail(Exit::bad_data, one->text.file, ":", one->text.line,
         ": no \"old_log_probs\" and no \"log_probs\", which ",
         options.needs_generated() ? "--kl-weight " : "--kl-place ",
         options.needs_generated() ? options.estimate_weight : options.kl_place, " is of");
}

// Where advantages are of values.
static void check_values(std::span<const Rollout> rollouts, const PolicyOptions& options) {
  if (!options.has_values()) return;
  if (const auto one =
          std::ranges::find_if(rollouts, [](const auto& r) { return r.values.empty(); });
      one != rollouts.end())
    fail(Exit::bad_data, one->text.file, ":", one->text.line,
         ": no \"values\", which --advantage gae is of and --save-rollouts keeps");
}

std::unique_ptr<PolicyTask> open_policy(PolicyOptions& options, const Log& log) {
  if (options.rollouts.empty()) fail(Exit::usage, "--prompts or --rollouts: required");
  check_stdin({{"--rollouts", options.rollouts}}, options.run.ranks.has_processes());
  PackedTask::Data data;
  data.words = options.open_tokenizer();
  options.take_vocabulary(*data.words.tokenizer);
  check_before_data(options);
  auto rollouts = std::make_shared<std::vector<Rollout>>(
      read_rollouts(options.rollouts,
                    {.group = options.num_generations,
                     .seq_length = options.seq_length,
                     .rewards = reward_rules(options.rewards),
                     .choices = options.choices(),
                     .of_layer = options.model.moe_router_topk,
                     .experts = options.model.num_experts},
                    *data.words.tokenizer));
  const auto referred =
      std::ranges::count_if(*rollouts, [](const Rollout& one) { return !one.reference.empty(); });
  if (options.has_reference() && referred > 0 && referred < std::ssize(*rollouts))
    fail(Exit::bad_data, "--rollouts: ", referred, " of ", rollouts->size(),
         " texts bring reference_log_probs, expected all or none");
  if (options.run.ranks.process.rank <= 0) tell(*rollouts, options.num_generations, log);
  LengthOptions& length = options.run.length;
  if (length.train_iters == 0 && length.train_samples == 0) {
    data.epochs = 1;
    length.data_samples = std::ssize(*rollouts) * options.num_iterations;
  }
  options.complete();
  std::vector<Example> texts;
  for (const Rollout& one : *rollouts) texts.push_back(one.text);
  data.train = std::make_shared<const Packed>(pack_steps(
      std::move(texts), options.packed(), options.run.batch.largest(), options.seq_length));
  check_passes(*rollouts, options);
  check_old(*rollouts, options);
  check_values(*rollouts, options);
  if (options.advantages.beta == 0 || referred > 0) take_all_advantages(*rollouts, options);
  return std::make_unique<PolicyTask>(options, std::move(data), std::move(rollouts));
}

void finetune_grpo(CommandLine& cl) {
  PolicyOptions options;
  cl.describe(
      "Learn from texts that are rewarded, those that the model itself writes for prompts or "
      "that were generated before, by how much better each is than its group.",
      "Takes the options of sft, but those of its data and of Mambas.");
  cl.first_run({"--load", "--prompts", "--reward", "--num-generations", "--max-completion-length",
                "--seq-length", "--global-batch-size", "--lr", "--save"});
  options.add_to(cl);
  options.parse(cl);
  options.take_losses();
  options.check_unused(cl);
  if (options.is_planned()) {
    options.take_vocabulary_to_plan();
    return print_plan(options.run, options.plan, cl.log(), [&] {
      options.plan.search ? options.complete_for_search() : options.complete();
      return std::make_unique<PolicyTask>(options);
    });
  }
  run_training(cl, options.run, options.check_layout, [&]() -> std::unique_ptr<Task> {
    if (!options.prompts.empty()) return open_drawing(options, cl.log());
    return open_policy(options, cl.log());
  });
}

}  // namespace mt
