// What the texts that a DrawingTask draws are worth, and what other models say of them.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "comm/group.h"
#include "post/policy/drawing_task.h"

namespace mt {

// Keeps what somebody says of a text, by that name, or by the names of what it is the sum of.
static void name(Rollout& rollout, const std::string& who, double said,
                 const NamedRewards& named = {}) {
  if (named.empty()) rollout.rewards.emplace_back(who, said);
  for (const auto& [name, reward] : named)
    rollout.rewards.emplace_back(concat(who, ".", name), reward);
}

static void add(DrawnText& drawn, const RewardRule& rule, double said,
                const NamedRewards& named = {}) {
  drawn.rollout.reward += rule.weight * said;
  name(drawn.rollout, rule.label, said, named);
}

// A step of whose texts a judge says nothing is learnt from as one without rewards; after three in
// a row, whatever is validated between them, something must be done about the judge.
void DrawingTask::reward(std::span<DrawnText> drawn, const Asked& asked,
                         const std::function<bool()>& ends) const {
  std::vector<Response> responses;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const PolicyPrompt& of = asked.of(i);
    drawn[i].rollout.reward = drawn[i].environment;
    if (environment_) name(drawn[i].rollout, "environment", drawn[i].environment, drawn[i].named);
    for (const RewardRule& rule : rules_)
      if (!rule.asks()) add(drawn[i], rule, said_by(rule, drawn[i].text, of.answer.value_or("")));
    for (std::size_t m = 0; m < judging_models_.size(); ++m)
      add(drawn[i], judging_models_[m].rule, drawn[i].judged[m]);
    responses.push_back({.prompt = of.text,
                         .text = drawn[i].text,
                         .asked = of.asked,
                         .answer = of.answer ? &*of.answer : nullptr,
                         .truncated = drawn[i].rollout.truncated,
                         .messages = of.messages,
                         .metadata = of.metadata});
  }
  bool failed = false;
  const auto note = [&](const std::string& who, const std::string& wrong, std::int64_t without) {
    if (wrong.empty()) return;
    const std::string what =
        concat(who, ": ", wrong, "; ", without, " of ", drawn.size(), " texts have no reward");
    failed |= without == std::ssize(drawn);
    if (asked.learnt && !asked.before_save && failed && failed_steps_ + 1 == kMostFailed)
      fail(Exit::peer_failed, what, ", for the third step in a row");
    log_.warn(what);
  };
  const auto is_wrong = [](const DrawnText& one) { return !one.wrong.empty(); };
  if (const auto one = std::ranges::find_if(drawn, is_wrong); one != drawn.end())
    note(environment_->name(), one->wrong, std::ranges::count_if(drawn, [](const DrawnText& text) {
           return std::isnan(text.environment);
         }));
  for (const auto& [rule, judge] : judges_) {
    const Judge::Verdict verdict = judge->judge(responses, ends);
    if (ends()) return;
    for (std::size_t i = 0; i < drawn.size(); ++i)
      add(drawn[i], rule, verdict.rewards[i],
          verdict.named.empty() ? NamedRewards() : verdict.named[i]);
    note(concat("--reward ", rule.name, ":", rule.argument), verdict.wrong,
         std::ranges::count_if(verdict.rewards, [](double r) { return std::isnan(r); }));
  }
  for (DrawnText& one : drawn) {
    if (!std::isfinite(one.rollout.reward)) one.rollout.reward = NAN;
    if (one.rollout.rewards.size() < 2) one.rollout.rewards.clear();
  }
  if (asked.learnt) failed_steps_ = failed ? failed_steps_ + 1 : 0;
}

bool DrawingTask::judge(std::span<DrawnText> drawn, const Asked& asked,
                        const Drawing& drawing) const {
  std::vector<double> rewards(drawn.size() + 1);  // the last: whether the run is to end
  if (drawing.ranks.rank() == 0) {
    reward(drawn, asked, drawing.ends);
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
  ScorePass& score = *score_reference_[place_here(ranks)];
  std::vector<std::vector<double>> nll;
  for (const DrawnText& one : drawn)  // all behind the prompt, of which not all is learnt
    nll.emplace_back(
        static_cast<std::size_t>(one.rollout.text.size() - one.rollout.prompt_tokens()));
  std::vector<std::span<const std::int32_t>> ids;
  std::vector<std::span<double>> to;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    ids.emplace_back(drawn[i].rollout.text.ids);
    to.emplace_back(nll[i]);
  }
  score.score(ids, to);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    Rollout& rollout = drawn[i].rollout;
    const auto before = static_cast<std::size_t>(rollout.prompt_tokens());
    rollout.for_each_learnt([&](std::size_t, std::size_t t) {
      rollout.reference.push_back(static_cast<float>(std::min(0.0, -nll[i][t - before])));
    });
  }
}

// What reward models say of them, each asked at a text's last token.
void DrawingTask::judge_by_models(std::span<DrawnText> drawn, const Group& ranks) const {
  std::vector<std::span<const std::int32_t>> ids;
  for (const DrawnText& one : drawn) ids.emplace_back(one.rollout.text.ids);
  std::vector<double> said(drawn.size());
  for (const JudgingModel& model : judging_models_) {
    model.passes[place_here(ranks)]->judge(ids, said);
    for (std::size_t i = 0; i < drawn.size(); ++i) drawn[i].judged.push_back(said[i]);
  }
}

// A text that is nearly as long as it may be loses a part of the penalty, as DAPO's do
// (arXiv:2503.14476, eq. 13).
void DrawingTask::shape(Rollout& rollout) const {
  if (options_.overlong_buffer == 0) return;
  const auto buffer = static_cast<double>(options_.overlong_buffer);
  const double over =
      static_cast<double>(rollout.text.targets() - *options_.max_completion_length) + buffer;
  if (over > 0) rollout.reward -= over / buffer * options_.overlong_penalty;
}

}  // namespace mt
