// DrawingTask: a policy learns from texts that it writes itself: of the next prompts, so many texts
// each, which rewards judge (post/policy/rewards.h).  Texts of a step that are learnt once, by the
// weights that wrote them, have ratios of probabilities that are 1.  Where several steps learn from
// what is drawn at once, or the same texts are learnt several times, the first of these steps asks
// the training's own pass for the log-probabilities that ratios are of, unless who drew has said
// them to the bit (ModelConfig::batch_invariant), and a run that is saved between them goes on from
// the texts that it has kept.  With a lag texts are drawn so many draws before those that learn
// from them, by the weights of then, and wait in a queue, which is kept, too; as the weights have
// changed meanwhile, training's own pass is asked when they are learnt from, and how much likelier
// it finds a token than who drew it did corrects what the token weighs.  Ranks of their own may
// draw them while the others learn (post/policy/drawing_ahead.cpp).
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "comm/group.h"
#include "formats/load_model.h"
#include "infer/reward_pass.h"
#include "infer/score_pass.h"
#include "post/packed_task.h"
#include "post/policy/drawn_samples.h"
#include "post/policy/drawn_texts.h"
#include "post/policy/environment.h"
#include "post/policy/judge.h"
#include "post/policy/policy_objective.h"
#include "post/policy/policy_options.h"
#include "post/policy/policy_prompts.h"
#include "post/policy/texts_under_way.h"

namespace mt {

class ChatPrompts;

class DrawingTask final : public PackedTask {
 public:
  struct Parts {
    Data words;                            // without texts
    std::vector<std::int32_t> end_tokens;  // that end a text; empty: the tokenizer's eod()
    std::vector<PolicyPrompt> prompts, valid_prompts;
    // Processes that only draw have none of these.
    std::unique_ptr<LoadedModel> reference;                   // null: there is none
    std::vector<std::unique_ptr<LoadedModel>> reward_models;  // of the rules rm, in their order
    std::shared_ptr<const ChatPrompts> chat;                  // of the words' tokenizer
  };
  DrawingTask(const PolicyOptions& options, Parts parts);
  ~DrawingTask() override;

  const Objective& objective() const override { return objective_; }
  FieldSpecs sample_fields() const override {
    return policy_fields(seq_length(), options_.packed(), options_.has_values(),
                         options_.choices());
  }
  std::optional<DrawnWork> drawn_work() const override { return options_.drawn_work(); }
  std::int64_t filled(std::int64_t first, std::int64_t samples) const override {
    return samples_->filled(first, samples);
  }
  void build(const TrainingLength& length, std::uint64_t seed, const BatchOptions& batch,
             const Log& log) override;
  const SampleSet& training() const override { return *set_; }
  void begin(std::int64_t iteration, const Scorer& score) const override;
  bool draws() const override { return true; }
  bool draw(const Drawing& drawing) const override;
  void draw_for(const DrawingFor& drawing) const override;
  void await_drawn(const Drawing& drawing) const override;
  void dismiss(const Drawing& drawing) const override;
  void forget(const Group& ranks) const override {
    in_flight_[place_here(ranks)].clear();
    if (ranks.rank() == 0) drawers_have_model_ = false;
  }
  bool validates() const override { return !parts_.valid_prompts.empty(); }
  // Tells the numbers of texts for its valid_prompts (post/policy/validation.h), which are drawn
  // with the same random numbers each time.
  std::optional<DrawnReport> validate(const Drawing& drawing) const override;
  // What a step tells of the texts that it learns from: their mean reward, as they were drawn, and
  // how many tokens they have, in the mean.
  TermValues told() const override { return told_; }
  std::unique_ptr<Task> changed(const Change& change) const override;

 private:
  std::unique_ptr<Samples> make_samples(std::unique_ptr<PackedSamples>) const override {
    return nullptr;  // none of its samples is there before its step
  }
  // Asked: prompts that are answered at once, so many times each.
  struct Asked {
    std::vector<const PolicyPrompt*> prompts = {};
    std::int64_t first = 0;  // the number of the first, of all that a run has
    std::int64_t group = 0, first_text = 0;
    bool learnt = true;        // by a step, which may ask what the reference says
    bool before_save = false;  // no judge that fails is to keep it from being made

    std::int64_t texts() const { return std::ssize(prompts) * group; }
    const PolicyPrompt& of(std::size_t text) const {
      return *prompts[text / static_cast<std::size_t>(group)];
    }
    AskedText text(std::int64_t number) const {
      return {.prompt = &of(static_cast<std::size_t>(number)),
              .group = first + number / group,
              .member = first_text + number % group};
    }
    std::vector<AskedText> some(std::int64_t begin, std::int64_t end) const {
      std::vector<AskedText> texts;
      for (std::int64_t i = begin; i < end; ++i) texts.push_back(text(i));
      return texts;
    }
  };
  void reward(std::span<DrawnText> drawn, const Asked& asked,
              const std::function<bool()>& ends) const;
  // Rank 0 judges, and all know; false where the run is to end.
  bool judge(std::span<DrawnText> drawn, const Asked& asked, const Drawing& drawing) const;
  void refer(std::span<DrawnText> drawn, const Group& ranks) const;
  void judge_by_models(std::span<DrawnText> drawn, const Group& ranks) const;
  void shape(Rollout& rollout) const;
  // So many of the run's prompts, from that one on.
  Asked asked(std::int64_t first, std::int64_t prompts, std::int64_t attempt) const;
  // That drawing takes, by what is done.
  struct Seconds {
    double refit = 0;      // until each rank has all of the model
    double gen = 0;        // until all ranks have their texts, with what an environment answers
    double reward = 0;     // of who judges, with reward models
    double log_probs = 0;  // of what the reference and training's own pass say
    double wait = 0;       // for ranks that draw

    Seconds& operator+=(const Seconds& other);
  };
  // Adds the seconds since it was last asked.
  class Lap {
   public:
    void operator()(double& to) {
      const Clock::time_point now = Clock::now();
      to += std::chrono::duration<double>(now - std::exchange(last_, now)).count();
    }

   private:
    using Clock = std::chrono::steady_clock;
    Clock::time_point last_ = Clock::now();
  };
  // What is drawn at once, and what is told of it.
  struct Drawn {
    std::vector<DrawnText> texts = {};
    Seconds seconds = {};
    RewardCount rewards = {};  // of the first attempt
    NamedRewards named = {};   // likewise: the means of what they are made of

    void count(std::span<const DrawnText> of);
    std::int64_t attempts = 0, equal = 0;
    bool prev_skipped = false;  // training's own pass was not asked of them
  };
  // The texts that a rank draws, and of them its own.
  struct Parted {
    std::int64_t begin = 0, end = 0, own = 0, own_end = 0;

    std::vector<DrawnText> own_of(std::vector<DrawnText> drawn) const;
  };
  static Parted parted(const Drawing& drawing, std::int64_t texts);
  CompletionModel completion_model() const;
  DrawOptions draw_options(const PassRanks& together, const std::function<bool()>& ends) const;
  std::optional<std::vector<DrawnText>> draw_some(const Model& model, const Asked& asked,
                                                  std::int64_t begin, std::int64_t end,
                                                  const PassRanks& together,
                                                  const std::function<bool()>& ends) const;
  // Texts and seconds alone, as the next.
  std::optional<Drawn> draw_and_judge(const Model& model, const Drawing& drawing,
                                      const Asked& asked) const;
  std::optional<Drawn> judge_own(std::optional<std::vector<DrawnText>> own, const Seconds& so_far,
                                 const Drawing& drawing, const Asked& asked) const;
  std::optional<Drawn> draw_groups(const Model& model, const Drawing& drawing, std::int64_t first,
                                   std::int64_t prompts) const;
  void tell(const Drawn& drawn, std::int64_t iteration) const;
  // Puts what is to be learnt from that sample of the run on, which that step begins with, into the
  // queue, and what is to be drawn ahead of it; false where the run is to end.
  bool draw_ahead(const Drawing& drawing, std::int64_t first, std::int64_t iteration) const;
  // Has the texts of that prompt and those behind it drawn for that step: here, or by the ranks
  // that draw for others, where they are under way until take_drawn().
  bool draw_for_step(const Drawing& drawing, std::int64_t prompt, std::int64_t step) const;
  struct UnderWay {
    Asked asked;
    std::int64_t step = 0, version = 0;  // that learns from it, and the weights'
    Seconds seconds = {};
    std::optional<std::vector<DrawnText>> drawn = {};  // once they have come
  };
  void ask_drawers(const Drawing& drawing, UnderWay asked) const;
  bool take_drawn(const Drawing& drawing) const;
  // Does what draw_ahead() does where each text ahead of its step gets some tokens before each
  // step.
  bool draw_in_flight(const Drawing& drawing, std::int64_t first) const;
  // Puts what was drawn of such weights into the queue.
  void put_drawn(Drawn drawn, std::int64_t version, std::size_t here) const;
  Drawn read_ahead(std::int64_t step) const;
  std::vector<Rollout> read_kept(const std::string& file) const;
  void tell_steps(const RewardCount& rewards, std::int64_t tokens, std::int64_t texts) const;
  void learn_from(std::vector<Rollout> rollouts, std::int64_t first) const;
  std::optional<DType> scored_as() const;  // what is drawn; none: it is not
  void ask_for_old(std::span<DrawnText> drawn, const Drawing& drawing) const;
  void check_generated(std::span<DrawnText> drawn, const Drawing& drawing) const;
  // The log-probabilities that ratios are of, where there are ratios; true where who drew has said
  // them, and training's own pass was not asked.
  bool take_old(std::span<DrawnText> drawn, const Drawing& drawing) const;
  void keep(std::span<const DrawnText> drawn, const std::string& file) const;
  // The file with a step's texts, or with those of a validation.
  std::string kept(std::int64_t iteration, const char* what = "step") const;
  void go_on_from_kept(const Drawing& drawing, std::int64_t first, std::int64_t iteration) const;
  bool has_samples(const Group& ranks) const;        // whether this rank makes them
  std::size_t place_here(const Group& ranks) const;  // of this rank among those of this process
  const PolicyPrompt& prompt(std::int64_t number) const {
    return parts_.prompts[static_cast<std::size_t>(number % std::ssize(parts_.prompts))];
  }

  PolicyOptions options_;
  PolicyObjective objective_;
  Parts parts_;
  std::vector<RewardRule> rules_;
  std::optional<EnvironmentProgram> environment_;
  struct WeighedJudge {
    RewardRule rule;
    std::unique_ptr<Judge> judge;
  };
  std::vector<WeighedJudge> judges_;
  struct JudgingModel {
    RewardRule rule;
    std::vector<std::unique_ptr<RewardPass>> passes = {};  // of each rank of this process
  };
  std::vector<JudgingModel> judging_models_;
  std::vector<std::unique_ptr<ScorePass>> score_reference_;  // likewise
  std::unique_ptr<SampleSet> set_;
  DrawnSamples* samples_ = nullptr;                        // the set's
  mutable std::unique_ptr<SampleSet> scored_;              // what was drawn at once, each text once
  mutable const PolicySamples* scored_samples_ = nullptr;  // that set's
  std::uint64_t seed_ = 0;
  Log log_;
  mutable std::vector<std::deque<Drawn>> drawn_ahead_;      // of each rank of this process
  mutable std::vector<std::optional<UnderWay>> under_way_;  // likewise
  struct InFlight {
    Asked asked;
    std::int64_t version = 0;  // of the first tokens
    std::unique_ptr<TextsUnderWay> texts;
  };
  mutable std::vector<std::deque<InFlight>> in_flight_;  // likewise
  mutable bool drawers_have_model_ = false;              // what steps do not change of it
  mutable std::once_flag begun_;
  mutable TermValues told_;
  mutable std::atomic<std::int64_t> checked_at_ = 0;  // the step that check_generated() is done in
  static constexpr int kMostFailed = 3;
  mutable int failed_steps_ = 0;  // in a row, in which a judge said nothing
};

// Reads the prompts of a run and completes its options.  After PolicyOptions::take_losses().
std::unique_ptr<Task> open_drawing(PolicyOptions& options, const Log& log);

}  // namespace mt
