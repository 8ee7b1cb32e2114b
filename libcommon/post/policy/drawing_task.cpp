#include "post/policy/drawing_task.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "comm/group.h"
#include "model/config/model_config.h"
#include "post/policy/judging_server.h"
#include "post/policy/policy_task.h"
#include "post/policy/reward_program.h"
#include "post/policy/validation.h"
#include "post/preferences/reference.h"

namespace mt {

static void require_answers(std::span<const PolicyPrompt> prompts) {
  for (const PolicyPrompt& one : prompts)
    if (!one.answer)
      fail(Exit::bad_data, one.file, ":", one.line, ": no \"answer\", which --judge-prompt has");
}

DrawingTask::DrawingTask(const PolicyOptions& options, Parts parts)
    : PackedTask(options, std::move(parts.words)),
      options_(options),
      objective_(options.rules, options.how_counted()),
      parts_(std::move(parts)),
      rules_(reward_rules(options.rewards)) {
  for (const RewardRule& rule : rules_) {
    if (rule.is_program())
      judges_.push_back({rule, std::make_unique<RewardProgram>(
                                   rule.argument, LineProgramOptions{options.reward_timeout,
                                                                     options.reward_jobs})});
    if (rule.is_server()) {
      auto server =
          std::make_unique<JudgingServer>(rule.argument, options.judging, options.reward_timeout);
      if (server->needs_answers()) {
        require_answers(parts_.prompts);
        require_answers(parts_.valid_prompts);
      }
      judges_.push_back({rule, std::move(server)});
    }
    if (rule.is_model()) judging_models_.push_back({rule});
  }
  if (!options.environment.empty())
    environment_.emplace(options.environment_program(),
                         LineProgramOptions{options.environment_timeout, options.reward_jobs});
  const RankOptions& ranks = options.run.ranks;
  drawn_ahead_.resize(static_cast<std::size_t>(ranks.has_processes() ? 1 : ranks.count));
  under_way_.resize(drawn_ahead_.size());
  in_flight_.resize(drawn_ahead_.size());
  for (int i = 0; i < (ranks.has_processes() ? 1 : ranks.count); ++i) {
    if (parts_.reference)
      score_reference_.push_back(std::make_unique<ScorePass>(
          *parts_.reference->model, ScorePass::Options{.vocab_size = parts_.reference->vocab_size(),
                                                       .window = options.seq_length,
                                                       .batch = options.run.batch.micro_batch_size,
                                                       .temperature = options.sampling.temperature,
                                                       .threads = ranks.threads_of_each()}));
    for (std::size_t m = 0; m < parts_.reward_models.size(); ++m)
      judging_models_[m].passes.push_back(std::make_unique<RewardPass>(
          *parts_.reward_models[m]->model,
          RewardPass::Options{.longest = options.seq_length,
                              .batch = options.run.batch.micro_batch_size,
                              .threads = ranks.threads_of_each()}));
  }
}

DrawingTask::~DrawingTask() = default;

void DrawingTask::build(const TrainingLength& length, std::uint64_t seed, const BatchOptions&,
                        const Log& log) {
  log_ = log;
  seed_ = seed;
  const std::int64_t size = target_samples(length)[0].value_or(
      std::ssize(parts_.prompts) * options_.num_generations * options_.num_iterations);
  auto samples = std::make_unique<DrawnSamples>(size, options_.run.batch.largest(), seq_length(),
                                                options_.how_learnt());
  samples_ = samples.get();
  set_.reset(new SampleSet{"", std::move(samples), Sampler(size, {.past_end = PastEnd::padding})});
}

// Only a run that goes on does not know what it began with.
void DrawingTask::begin(std::int64_t iteration, const Scorer&) const {
  const CheckpointOptions& o = options_.run.checkpoint;
  if (iteration == 0 && options_.has_reference() && options_.reference.empty() &&
      !model().has_adapters() && !o.save.empty() && options_.run.ranks.process.rank <= 0)
    std::call_once(begun_, [&] { write_reference_model(o.save, options_.stored->where); });
}

std::unique_ptr<Task> DrawingTask::changed(const Change& change) const {
  PolicyOptions options = options_;
  mt::change(options.model, options.seq_length, change);
  return std::make_unique<PolicyTask>(options);
}

DrawingTask::Asked DrawingTask::asked(std::int64_t first, std::int64_t prompts,
                                      std::int64_t attempt) const {
  Asked asked{.first = first,
              .group = options_.num_generations,
              .first_text = attempt * options_.num_generations};
  for (std::int64_t i = 0; i < prompts; ++i) asked.prompts.push_back(&prompt(first + i));
  return asked;
}

DrawingTask::Seconds& DrawingTask::Seconds::operator+=(const Seconds& other) {
  refit += other.refit;
  gen += other.gen;
  reward += other.reward;
  log_probs += other.log_probs;
  wait += other.wait;
  return *this;
}

CompletionModel DrawingTask::completion_model() const {
  return {.tokenizer = tokenizer(),
          .vocab_size = std::min<std::int64_t>(tokenizer().vocab_size(), model().vocab_size),
          .end_tokens = parts_.end_tokens};
}

DrawOptions DrawingTask::draw_options(const PassRanks& together,
                                      const std::function<bool()>& ends) const {
  Sampling sampling = options_.sampling;
  sampling.seed = seed_;
  return {.seq_length = seq_length(),
          .most_tokens = options_.max_completion_length.value_or(0),
          .sampling = sampling,
          .stop = options_.stop,
          .scored = scored_as(),
          .environment = environment_ ? &*environment_ : nullptr,
          .chat = parts_.chat.get(),
          .turns = options_.max_turns,
          .threads = options_.run.ranks.threads_of_each(),
          .ends = ends,
          .ranks = together};
}

// Texts `begin` to `end` of those that are asked for.
std::optional<std::vector<DrawnText>> DrawingTask::draw_some(
    const Model& model, const Asked& asked, std::int64_t begin, std::int64_t end,
    const PassRanks& together, const std::function<bool()>& ends) const {
  return draw_texts(model, completion_model(), asked.some(begin, end),
                    draw_options(together, ends));
}

// Whose texts a rank draws: of so many ranks that draw together, which have consecutive numbers,
// each draws those of all; and what is its own of them.
DrawingTask::Parted DrawingTask::parted(const Drawing& drawing, std::int64_t texts) {
  const std::int64_t ranks = drawing.ranks.size(), rank = drawing.ranks.rank(),
                     together = drawing.together.count(), leader = rank - rank % together;
  const auto first_of = [&](std::int64_t of) { return texts * of / ranks; };
  return {.begin = first_of(leader),
          .end = first_of(leader + together),
          .own = first_of(rank),
          .own_end = first_of(rank + 1)};
}

std::vector<DrawnText> DrawingTask::Parted::own_of(std::vector<DrawnText> drawn) const {
  drawn.resize(static_cast<std::size_t>(own_end - begin));
  drawn.erase(drawn.begin(), drawn.begin() + (own - begin));
  return drawn;
}

std::optional<DrawingTask::Drawn> DrawingTask::draw_and_judge(const Model& model,
                                                              const Drawing& drawing,
                                                              const Asked& asked) const {
  const Parted part = parted(drawing, asked.texts());
  Seconds seconds;
  Lap lap;
  std::optional<std::vector<DrawnText>> own =
      draw_some(model, asked, part.begin, part.end, drawing.together, drawing.ends);
  lap(seconds.gen);
  if (own) own = part.own_of(std::move(*own));  // what follows, each rank does for its part of them
  return judge_own(std::move(own), seconds, drawing, asked);
}

// Judges this rank's part of the texts, while each other rank judges its own.
std::optional<DrawingTask::Drawn> DrawingTask::judge_own(std::optional<std::vector<DrawnText>> own,
                                                         const Seconds& so_far,
                                                         const Drawing& drawing,
                                                         const Asked& asked) const {
  Drawn judged{.seconds = so_far};
  Lap lap;
  if (own) {
    if (asked.learnt) refer(*own, drawing.ranks);
    lap(judged.seconds.log_probs);
    judge_by_models(*own, drawing.ranks);
    lap(judged.seconds.reward);
  }
  std::optional<std::vector<DrawnText>> drawn = all_texts(drawing.ranks, std::move(own));
  if (!drawn) return std::nullopt;
  lap(judged.seconds.gen);
  for (std::size_t i = 0; i < drawn->size(); ++i) {
    (*drawn)[i].rollout.text.file = asked.of(i).file;
    (*drawn)[i].rollout.text.line = asked.of(i).line;
  }
  if (!judge(*drawn, asked, drawing)) return std::nullopt;
  lap(judged.seconds.reward);
  judged.texts = std::move(*drawn);
  return judged;
}

void DrawingTask::Drawn::count(std::span<const DrawnText> of) {
  std::vector<double> all;
  NamedMeans means;
  for (const DrawnText& one : of) {
    all.push_back(one.rollout.reward);
    means.add(one.rollout.rewards);
  }
  rewards = count_rewards(all);
  named = means.means();
}

// Whether there is nothing to be learnt from a group, because its texts are all worth the same.
static bool are_equal(std::span<const DrawnText> group) {
  double low = INFINITY, high = -INFINITY;
  for (const DrawnText& one : group) {
    if (std::isnan(one.rollout.reward)) continue;
    low = std::min(low, one.rollout.reward);
    high = std::max(high, one.rollout.reward);
  }
  return !(low < high);
}

// In the place of groups that are equal the next prompts are asked, a few times; at last there is
// nothing better than these.
std::optional<DrawingTask::Drawn> DrawingTask::draw_groups(const Model& model,
                                                           const Drawing& drawing,
                                                           std::int64_t first,
                                                           std::int64_t prompts) const {
  const auto group = static_cast<std::size_t>(options_.num_generations);
  const std::size_t wanted = static_cast<std::size_t>(prompts) * group;
  Drawn all;
  std::vector<DrawnText> equal;
  for (; all.attempts <= options_.dynamic_sampling && all.texts.size() < wanted; ++all.attempts) {
    prompts = static_cast<std::int64_t>((wanted - all.texts.size()) / group);
    std::optional<Drawn> drawn =
        draw_and_judge(model, drawing, asked(first, prompts, all.attempts));
    first += prompts;
    if (!drawn) return std::nullopt;
    all.seconds += drawn->seconds;
    drawn->count(drawn->texts);
    if (all.attempts == 0) {
      all.rewards = drawn->rewards;
      all.named = drawn->named;
    }
    for (std::size_t i = 0; i < drawn->texts.size(); i += group) {
      const auto texts = std::span(drawn->texts).subspan(i, group);
      auto& to = options_.dynamic_sampling > 0 && are_equal(texts) ? equal : all.texts;
      std::ranges::move(texts, std::back_inserter(to));
    }
    if (drawn->rewards.without == std::ssize(drawn->texts)) {  // who judges has nothing to say
      ++all.attempts;
      break;
    }
  }
  all.equal = static_cast<std::int64_t>(equal.size() / group);
  equal.resize(wanted - all.texts.size());
  std::ranges::move(equal, std::back_inserter(all.texts));
  for (DrawnText& one : all.texts) shape(one.rollout);
  return all;
}

std::string DrawingTask::kept(std::int64_t iteration, const char* what) const {
  std::string number = std::to_string(iteration);
  number.insert(0, 7 - std::min<std::size_t>(7, number.size()), '0');
  return concat(options_.save_rollouts, "/", what, "-", number, ".jsonl");
}

// As --rollouts reads them.
void DrawingTask::keep(std::span<const DrawnText> drawn, const std::string& file) const {
  if (options_.save_rollouts.empty()) return;
  std::string lines;
  for (const DrawnText& one : drawn) lines += line_of(one.rollout, one.text);
  write_file_atomically(file, lines, true);
}

// Ranks that are threads read one task's samples.
bool DrawingTask::has_samples(const Group& ranks) const {
  return ranks.rank() == 0 || options_.run.ranks.has_processes();
}

std::size_t DrawingTask::place_here(const Group& ranks) const {
  return options_.run.ranks.has_processes() ? 0 : static_cast<std::size_t>(ranks.rank());
}

void DrawingTask::learn_from(std::vector<Rollout> rollouts, std::int64_t first) const {
  take_advantages(rollouts, options_.num_generations, options_.advantages);
  samples_->put(first, std::move(rollouts));
}

std::optional<DType> DrawingTask::scored_as() const {
  if (!options_.model.batch_invariant && options_.max_lag == 0) return std::nullopt;
  return sum_dtype(options_.run.compute_dtype());
}

// What training's own pass says of the texts, before it changes.
void DrawingTask::ask_for_old(std::span<DrawnText> drawn, const Drawing& drawing) const {
  if (has_samples(drawing.ranks)) {
    auto rollouts = std::make_shared<std::vector<Rollout>>();
    for (const DrawnText& one : drawn) rollouts->push_back(one.rollout);
    auto samples = samples_to_score(std::move(rollouts), seq_length(), options_.how_learnt());
    scored_samples_ = samples.get();
    const std::int64_t size = samples->size();
    scored_.reset(
        new SampleSet{"", std::move(samples), Sampler(size, {.past_end = PastEnd::padding})});
  }
  drawing.ranks.barrier();
  const std::vector<double> scores = drawing.score(*scored_),
                            said = scored_samples_->of_texts(scores);
  std::vector<double> values;
  if (options_.has_values())
    values = scored_samples_->of_texts(scores, PolicySamples::Said::values);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    Rollout& rollout = drawn[i].rollout;
    const std::size_t text = i * static_cast<std::size_t>(seq_length());
    rollout.old.clear();
    rollout.values.clear();
    rollout.for_each_learnt([&](std::size_t, std::size_t t) {
      rollout.old.push_back(static_cast<float>(std::min(0.0, said[text + t - 1])));
      if (!values.empty()) rollout.values.push_back(static_cast<float>(values[text + t - 1]));
    });
  }
}

// As many as tell any two numbers apart.
static std::string nine_digits(float number) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.9g", static_cast<double>(number));
  return digits;
}

// That what was said of the texts while they were drawn is what training's own pass says of them.
void DrawingTask::check_generated(std::span<DrawnText> drawn, const Drawing& drawing) const {
  ask_for_old(drawn, drawing);
  for (const DrawnText& one : drawn)
    for (std::size_t t = 0; t < one.rollout.old.size(); ++t)
      if (one.rollout.old[t] != one.rollout.generated[t])
        fail(Exit::internal, "--batch-invariant: ", one.rollout.text.file, ":",
             one.rollout.text.line, ": the log-probability of token ", t, " of a text is ",
             nine_digits(one.rollout.generated[t]), " while it is drawn, and ",
             nine_digits(one.rollout.old[t]), " while it is learnt");
}

// A batch-invariant run asks the pass of training only for the texts that it draws first, to
// compare, or for all of them where that says values.
bool DrawingTask::take_old(std::span<DrawnText> drawn, const Drawing& drawing) const {
  if (!options_.model.batch_invariant || options_.max_lag > 0) {
    if (options_.asks_old()) ask_for_old(drawn, drawing);
    for (DrawnText& one : drawn)
      if (one.rollout.generated.empty()) one.rollout.generated = one.rollout.old;
    return false;
  }
  std::int64_t never = 0;
  checked_at_.compare_exchange_strong(never, drawing.iteration);
  const bool skips = checked_at_ != drawing.iteration && !options_.has_values();
  if (!skips) check_generated(drawn, drawing);
  for (DrawnText& one : drawn) one.rollout.old = one.rollout.generated;
  return skips;
}

// The texts of a step that a run has kept.
std::vector<Rollout> DrawingTask::read_kept(const std::string& file) const {
  std::vector<Rollout> rollouts = read_rollouts({file},
                                                {.group = options_.num_generations,
                                                 .seq_length = seq_length(),
                                                 .choices = options_.choices(),
                                                 .of_layer = options_.model.moe_router_topk,
                                                 .experts = options_.model.num_experts},
                                                tokenizer());
  if (std::ssize(rollouts) != options_.texts_at_once())
    fail(Exit::bad_data, file, ": ", rollouts.size(), " texts, expected ", options_.texts_at_once(),
         ", which the run goes on to learn from");
  return rollouts;
}

// A run goes on that was saved between two steps that learn from the same texts.
void DrawingTask::go_on_from_kept(const Drawing& drawing, std::int64_t first,
                                  std::int64_t iteration) const {
  drawing.ranks.barrier();  // none reads the samples
  if (has_samples(drawing.ranks)) {
    std::vector<Rollout> rollouts = read_kept(kept(iteration));
    std::vector<double> rewards;
    std::int64_t tokens = 0;
    for (const Rollout& one : rollouts) {
      rewards.push_back(one.reward);
      tokens += one.text.targets();
    }
    tell_steps(count_rewards(rewards), tokens, std::ssize(rollouts));
    learn_from(std::move(rollouts), first);
  }
  drawing.ranks.barrier();
}

bool DrawingTask::draw(const Drawing& drawing) const {
  const std::int64_t texts = options_.texts_at_once(),
                     done = drawing.first % (texts * options_.num_iterations),
                     first = drawing.first - done,
                     iteration = drawing.iteration - done / drawing.samples;
  if (done > 0) {
    if (!samples_->has(drawing.first)) go_on_from_kept(drawing, first, iteration);
    return true;
  }
  if (!draw_ahead(drawing, first, iteration)) return false;
  std::deque<Drawn>& queue = drawn_ahead_[place_here(drawing.ranks)];
  Drawn drawn = std::move(queue.front());
  queue.pop_front();
  Lap lap;
  drawn.prev_skipped = take_old(drawn.texts, drawing);
  lap(drawn.seconds.log_probs);
  if (drawing.ranks.rank() == 0) {
    keep(drawn.texts, kept(iteration));
    if (options_.max_lag > 0 && !options_.save_rollouts.empty())
      std::filesystem::remove(kept(iteration, "ahead"));
    tell(drawn, iteration);
  }
  if (has_samples(drawing.ranks)) {
    std::vector<Rollout> rollouts;
    for (DrawnText& one : drawn.texts) rollouts.push_back(std::move(one.rollout));
    learn_from(std::move(rollouts), first);
  }
  drawing.ranks.barrier();
  return true;
}

std::optional<DrawnReport> DrawingTask::validate(const Drawing& drawing) const {
  constexpr std::int64_t kBehindAll = std::int64_t{1} << 31;  // prompts that are learnt from
  Asked asked{.first = kBehindAll, .group = options_.valid_generations, .learnt = false};
  for (const PolicyPrompt& one : parts_.valid_prompts) asked.prompts.push_back(&one);
  const std::optional<Drawn> drawn = draw_and_judge(drawing.model(), drawing, asked);
  if (!drawn) return std::nullopt;
  if (drawing.ranks.rank() == 0) keep(drawn->texts, kept(drawing.iteration, "valid"));
  return DrawnReport{
      .iteration = drawing.iteration,
      .numbers = numbers_of(drawn->texts, options_.valid_generations, options_.pass_reward)};
}

void DrawingTask::tell(const Drawn& drawn, std::int64_t iteration) const {
  std::int64_t tokens = 0, truncated = 0, turns = 0;
  for (const DrawnText& one : drawn.texts) {
    turns += one.turns;
    truncated += one.rollout.truncated ? 1 : 0;
    tokens += one.rollout.text.targets();
  }
  const auto texts = static_cast<double>(drawn.texts.size());
  std::vector<LogField> members{
      {"iteration", iteration}, {"texts", drawn.texts.size()}, {"reward", drawn.rewards.mean}};
  NamedRewards named = drawn.named;
  for (auto& [name, mean] : named) members.push_back({name.insert(0, "reward."), mean});
  members.push_back({"without_reward", drawn.rewards.without});
  members.push_back({"tokens", static_cast<double>(tokens) / texts});
  members.push_back({"truncated", static_cast<double>(truncated) / texts});
  if (environment_) members.push_back({"turns", static_cast<double>(turns) / texts});
  if (options_.dynamic_sampling > 0) {
    members.push_back({"draws", drawn.attempts});
    members.push_back({"equal_groups", drawn.equal});
  }
  if (options_.model.batch_invariant)
    members.push_back({"prev_skipped", drawn.prev_skipped ? 1 : 0});
  if (options_.max_lag > 0)
    members.push_back({"lag", iteration - 1 - drawn.texts.front().rollout.version.value_or(0)});
  const Seconds& took = drawn.seconds;
  for (const auto& [name, seconds] :
       {std::pair("refit_s", took.refit), std::pair("gen_s", took.gen),
        std::pair("reward_s", took.reward), std::pair("logprob_s", took.log_probs)})
    members.push_back({name, std::round(seconds * 1e3) / 1e3});
  if (options_.run.ranks.drawers > 0)
    members.push_back({"wait_s", std::round(took.wait * 1e3) / 1e3});
  log_.event("rollouts", members);
  tell_steps(drawn.rewards, tokens, std::ssize(drawn.texts));
}

void DrawingTask::tell_steps(const RewardCount& rewards, std::int64_t tokens,
                             std::int64_t texts) const {
  told_ = {{.name = "reward", .value = rewards.mean},
           {.name = "completion tokens",
            .value = static_cast<double>(tokens) / static_cast<double>(texts)}};
}

}  // namespace mt
