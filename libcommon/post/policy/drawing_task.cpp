#include "post/policy/drawing_task.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "comm/group.h"
#include "formats/model_source.h"
#include "model/config/model_config.h"
#include "post/policy/policy_task.h"
#include "post/policy/reward_program.h"

namespace mt {

// --- Samples ------------------------------------------------------------------------------------

DrawnSamples::~DrawnSamples() = default;

const PolicySamples& DrawnSamples::of_step(std::int64_t k) const {
  if (!step_ || k < first_ || k - first_ >= step_->size())
    fail(Exit::internal, name_, ": sample ", k, " is not of the step that was drawn");
  return *step_;
}

void DrawnSamples::get(std::int64_t k, const Fields& sample) const {
  of_step(k).get(k - first_, sample);
}

std::vector<std::string> DrawnSamples::lines(std::int64_t k, const Tokenizer& tokenizer) const {
  return of_step(k).lines(k - first_, tokenizer);
}

void DrawnSamples::write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const {
  of_step(k).write(k - first_, tokenizer, json);
}

void DrawnSamples::put(std::int64_t first, std::vector<Rollout> rollouts, std::int64_t seq_length) {
  std::vector<Example> texts;
  for (const Rollout& one : rollouts) texts.push_back(one.text);
  auto packed =
      std::make_shared<const Packed>(Packed::of(std::move(texts), Packing::none, seq_length));
  step_ = std::make_unique<PolicySamples>(
      std::make_unique<PackedSamples>(name_, std::move(packed), PackedSamples::Order{}),
      std::make_shared<const std::vector<Rollout>>(std::move(rollouts)),
      std::make_shared<const std::vector<double>>());
  first_ = first;
}

// --- The task -----------------------------------------------------------------------------------

DrawingTask::DrawingTask(const PolicyOptions& options, Parts parts)
    : PackedTask(options, std::move(parts.words)),
      options_(options),
      objective_(options.rules, options.share, options.max_completion_length.value_or(1),
                 options.seq_length),
      parts_(std::move(parts)) {
  for (const std::string& command : options.programs)
    programs_.emplace_back(command, options.reward_timeout);
  const RankOptions& ranks = options.run.ranks;
  for (int i = 0; parts_.reference && i < (ranks.has_processes() ? 1 : ranks.count); ++i)
    score_reference_.push_back(std::make_unique<ScorePass>(
        *parts_.reference->model, ScorePass::Options{.vocab_size = parts_.reference->vocab_size(),
                                                     .window = options.seq_length,
                                                     .threads = ranks.threads_of_each()}));
}

DrawingTask::~DrawingTask() = default;

void DrawingTask::build(const TrainingLength& length, std::uint64_t seed, const BatchOptions&,
                        const Log& log) {
  log_ = log;
  seed_ = seed;
  const std::int64_t size =
      target_samples(length)[0].value_or(std::ssize(parts_.prompts) * options_.num_generations);
  auto samples = std::make_unique<DrawnSamples>(size, seq_length());
  samples_ = samples.get();
  set_ = std::unique_ptr<SampleSet>(
      new SampleSet{"", std::move(samples), Sampler(size, {.past_end = PastEnd::padding})});
}

std::unique_ptr<Task> DrawingTask::changed(const Change& change) const {
  PolicyOptions options = options_;
  mt::change(options.model, options.seq_length, change);
  return std::make_unique<PolicyTask>(options);
}

// --- A step -------------------------------------------------------------------------------------

// A step of whose texts no program says anything is learnt from as one without rewards; after three
// in a row something must be done about the program.
void DrawingTask::reward(std::span<DrawnText> drawn, std::int64_t first_prompt,
                         const std::function<bool()>& ends) const {
  constexpr int kMostFailed = 3;
  const std::vector<RewardRule> rules = reward_rules(options_.rules_of_rewards());
  std::vector<Response> responses;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const PolicyPrompt& asked =
        prompt(first_prompt + static_cast<std::int64_t>(i) / options_.num_generations);
    drawn[i].rollout.reward = reward_of(rules, drawn[i].text, asked.answer.value_or(""));
    responses.push_back({.prompt = asked.text,
                         .text = drawn[i].text,
                         .answer = asked.answer ? &*asked.answer : nullptr,
                         .truncated = drawn[i].truncated});
  }
  bool failed = false;
  for (const RewardProgram& program : programs_) {
    const RewardProgram::Verdict verdict = program.judge(responses, ends);
    if (ends()) return;
    for (std::size_t i = 0; i < drawn.size(); ++i) drawn[i].rollout.reward += verdict.rewards[i];
    if (verdict.wrong.empty()) continue;
    const auto without =
        std::ranges::count_if(verdict.rewards, [](double r) { return std::isnan(r); });
    const std::string what = concat("--reward cmd:", program.command(), ": ", verdict.wrong, "; ",
                                    without, " of ", drawn.size(), " texts have no reward");
    failed |= without == std::ssize(drawn);
    if (failed && failed_steps_ + 1 == kMostFailed)
      fail(Exit::peer_failed, what, ", for the third step in a row");
    log_.warn(what);
  }
  failed_steps_ = failed ? failed_steps_ + 1 : 0;
}

bool DrawingTask::judge(std::span<DrawnText> drawn, const Drawing& drawing) const {
  std::vector<double> rewards(drawn.size() + 1);  // the last: whether the run is to end
  if (drawing.ranks.rank() == 0) {
    reward(drawn, drawing.first / options_.num_generations, drawing.ends);
    std::ranges::transform(drawn, rewards.begin(),
                           [](const DrawnText& one) { return one.rollout.reward; });
    rewards.back() = drawing.ends() ? 1 : 0;
  }
  drawing.ranks.all_reduce({rewards.data(), DType::f64, {std::ssize(rewards)}}).wait();
  for (std::size_t i = 0; i < drawn.size(); ++i) drawn[i].rollout.reward = rewards[i];
  return rewards.back() == 0;
}

// What the reference says of them.
void DrawingTask::refer(std::span<DrawnText> drawn, const Group& ranks) const {
  if (score_reference_.empty() || drawn.empty()) return;
  ScorePass& score = *score_reference_[options_.run.ranks.has_processes()
                                           ? 0
                                           : static_cast<std::size_t>(ranks.rank())];
  std::vector<std::vector<double>> nll;
  for (const DrawnText& one : drawn)
    nll.emplace_back(static_cast<std::size_t>(one.rollout.text.targets()));
  std::vector<std::span<const std::int32_t>> ids;
  std::vector<std::span<double>> to;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    ids.emplace_back(drawn[i].rollout.text.ids);
    to.emplace_back(nll[i]);
  }
  score.score(ids, to);
  for (std::size_t i = 0; i < drawn.size(); ++i)
    for (const double each : nll[i])
      drawn[i].rollout.reference.push_back(static_cast<float>(std::min(0.0, -each)));
}

// As --rollouts reads them.
void DrawingTask::keep(std::span<const DrawnText> drawn, std::int64_t iteration) const {
  if (options_.save_rollouts.empty()) return;
  std::string lines;
  for (const DrawnText& one : drawn) {
    const auto ids = std::span(one.rollout.text.ids);
    const auto before = static_cast<std::size_t>(one.rollout.prompt_tokens());
    JsonWriter json;
    const auto list = [&](const char* name, const auto& items) {
      json.key(name).begin_array();
      for (const auto& item : items) json.value(item);
      json.end_array();
    };
    json.begin_object();
    list("prompt_ids", ids.first(before));
    list("completion_ids", ids.subspan(before));
    json.member("text", one.text).member("reward", one.rollout.reward);
    if (!one.rollout.reference.empty()) list("reference_log_probs", one.rollout.reference);
    lines += json.end_object().text() + "\n";
  }
  std::string number = std::to_string(iteration);
  number.insert(0, 7 - std::min<std::size_t>(7, number.size()), '0');
  write_file_atomically(options_.save_rollouts + "/step-" + number + ".jsonl", lines, true);
}

bool DrawingTask::draw(const Model& model, const Drawing& drawing) const {
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t group = options_.num_generations, first = drawing.first / group;
  const std::int64_t asked = drawing.samples / group, ranks = drawing.ranks.size(),
                     begin = asked * drawing.ranks.rank() / ranks,
                     end = asked * (drawing.ranks.rank() + 1) / ranks;
  std::vector<const PolicyPrompt*> prompts;  // of this rank
  for (std::int64_t i = begin; i < end; ++i) prompts.push_back(&prompt(first + i));
  const CompletionModel about{
      .tokenizer = tokenizer(),
      .vocab_size = std::min<std::int64_t>(tokenizer().vocab_size(), this->model().vocab_size),
      .end_tokens = parts_.end_tokens};
  Sampling sampling = options_.sampling;
  sampling.seed = seed_;
  std::optional<std::vector<DrawnText>> own =
      draw_texts(model, about, prompts, first + begin,
                 {.group = group,
                  .seq_length = seq_length(),
                  .most_tokens = options_.max_completion_length.value_or(0),
                  .sampling = sampling,
                  .threads = options_.run.ranks.threads_of_each(),
                  .ends = drawing.ends});
  if (own) refer(*own, drawing.ranks);
  std::optional<std::vector<DrawnText>> drawn = all_texts(drawing.ranks, std::move(own));
  if (!drawn) return false;
  for (std::size_t i = 0; i < drawn->size(); ++i) {
    const PolicyPrompt& of = prompt(first + static_cast<std::int64_t>(i) / group);
    (*drawn)[i].rollout.text.file = of.file;
    (*drawn)[i].rollout.text.line = of.line;
  }
  const std::chrono::duration<double> drew = std::chrono::steady_clock::now() - start;
  if (!judge(*drawn, drawing)) return false;
  const bool is_first = drawing.ranks.rank() == 0;
  if (is_first) keep(*drawn, drawing.iteration);
  // Ranks that are threads read one task's samples.
  if (is_first || options_.run.ranks.has_processes()) learn_from(*drawn, drawing, drew.count());
  drawing.ranks.barrier();
  return true;
}

// Tells of them, on rank 0, and makes them the step's samples.
void DrawingTask::learn_from(std::span<DrawnText> drawn, const Drawing& drawing,
                             double seconds) const {
  std::vector<Rollout> rollouts;
  std::int64_t tokens = 0, truncated = 0;
  for (DrawnText& one : drawn) {
    truncated += one.truncated ? 1 : 0;
    tokens += one.rollout.text.targets();
    rollouts.push_back(std::move(one.rollout));
  }
  take_advantages(rollouts, options_.num_generations, options_.advantages);
  const RewardCount rewards = count_rewards(rollouts);
  const auto texts = static_cast<double>(drawn.size());
  if (drawing.ranks.rank() == 0)
    log_.event("rollouts", {{"iteration", drawing.iteration},
                            {"texts", drawn.size()},
                            {"reward", rewards.mean},
                            {"without_reward", rewards.without},
                            {"tokens", static_cast<double>(tokens) / texts},
                            {"truncated", static_cast<double>(truncated) / texts},
                            {"seconds", std::round(seconds * 1e3) / 1e3}});
  samples_->put(drawing.first, std::move(rollouts), seq_length());
}

// --- Its opening --------------------------------------------------------------------------------

static std::unique_ptr<LoadedModel> load_reference(const PolicyOptions& options,
                                                   const Tokenizer& tokenizer) {
  if (options.reference.empty()) return nullptr;
  auto loaded = std::make_unique<LoadedModel>(
      load_model(options.reference, {}, options.run.compute,
                 {.families = {ModelFamily::gpt, ModelFamily::mixtral},
                  .others = "to which nothing that grpo trains can stay near"}));
  if (loaded->tokenizer->identity() != tokenizer.identity())
    fail(Exit::bad_config, "--reference ", options.reference,
         ": has another tokenizer than the model");
  if (loaded->model->config().max_position_embeddings < options.seq_length)
    fail(Exit::bad_config, "--reference ", options.reference, ": has ",
         loaded->model->config().max_position_embeddings, " positions, less than --seq-length ",
         options.seq_length);
  return loaded;
}

std::unique_ptr<Task> open_drawing(PolicyOptions& options, const Log& log) {
  FinetuneOptions::Words words = options.open_tokenizer();
  options.take_vocabulary(*words.tokenizer);
  if (options.seq_length == 0) fail(Exit::usage, "--seq-length: required");
  const ChatPrompts chat(*words.tokenizer, std::move(words.chat_files), words.place, options.chat);
  PolicyPrompts read =
      read_prompts(options.prompts, *words.tokenizer, chat,
                   {.longest = options.seq_length - 1,
                    .need_answers = needs_answer(reward_rules(options.rules_of_rewards()))});
  log.event(
      "data",
      {{"split", "train"}, {"prompts", std::ssize(read.prompts)}, {"too_long", read.dropped}});
  LengthOptions& length = options.run.length;
  if (length.train_iters == 0 && length.train_samples == 0)
    length.data_samples = std::ssize(read.prompts) * options.num_generations;
  options.complete();
  DrawingTask::Parts parts{.words = {},
                           .end_tokens = {},
                           .prompts = std::move(read.prompts),
                           .reference = load_reference(options, *words.tokenizer)};
  if (options.stored)
    parts.end_tokens =
        end_tokens_of(*open_model(options.stored->where, {.check_while_reading = true}));
  if (!options.save_rollouts.empty()) std::filesystem::create_directories(options.save_rollouts);
  parts.words.words = std::move(words);
  return std::make_unique<DrawingTask>(options, std::move(parts));
}

}  // namespace mt
