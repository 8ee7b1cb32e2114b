// DrawingTask: a policy learns from texts that it writes itself, each step from new ones: of the
// next prompts, so many texts each, which rewards judge (post/policy/rewards.h).  Each text is
// learnt once, by the weights that wrote it, so that every ratio of probabilities is 1.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "formats/load_model.h"
#include "infer/score_pass.h"
#include "post/packed_task.h"
#include "post/policy/drawn_texts.h"
#include "post/policy/policy_objective.h"
#include "post/policy/policy_options.h"
#include "post/policy/policy_prompts.h"
#include "post/policy/policy_samples.h"

namespace mt {

class Group;
class RewardProgram;

// Samples of the step that was drawn last.
class DrawnSamples final : public Samples {
 public:
  DrawnSamples(std::int64_t size, std::int64_t seq_length)
      : size_(size), fields_(policy_fields(seq_length)) {}
  ~DrawnSamples() override;

  const std::string& name() const override { return name_; }
  std::int64_t size() const override { return size_; }
  const FieldSpecs& fields() const override { return fields_; }
  // Exit::internal for one of another step.
  void get(std::int64_t k, const Fields& sample) const override;
  std::vector<std::string> lines(std::int64_t k, const Tokenizer& tokenizer) const override;
  void write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const override;
  Indexes indexes() const override { return {}; }

  // From now on they are these, from sample `first` on.
  void put(std::int64_t first, std::vector<Rollout> rollouts, std::int64_t seq_length);

 private:
  const PolicySamples& of_step(std::int64_t k) const;

  std::string name_ = "--prompts";
  std::int64_t size_, first_ = 0;
  FieldSpecs fields_;
  std::unique_ptr<PolicySamples> step_;
};

class DrawingTask final : public PackedTask {
 public:
  struct Parts {
    Data words;                            // without texts
    std::vector<std::int32_t> end_tokens;  // that end a text; empty: the tokenizer's eod()
    std::vector<PolicyPrompt> prompts;
    std::unique_ptr<LoadedModel> reference;  // null: there is none
  };
  DrawingTask(const PolicyOptions& options, Parts parts);
  ~DrawingTask() override;

  const Objective& objective() const override { return objective_; }
  FieldSpecs sample_fields() const override { return policy_fields(seq_length()); }
  void build(const TrainingLength& length, std::uint64_t seed, const BatchOptions& batch,
             const Log& log) override;
  const SampleSet& training() const override { return *set_; }
  bool draws() const override { return true; }
  bool draw(const Model& model, const Drawing& drawing) const override;
  std::unique_ptr<Task> changed(const Change& change) const override;

 private:
  std::unique_ptr<Samples> make_samples(std::unique_ptr<PackedSamples>) const override {
    return nullptr;  // none of its samples is there before its step
  }
  void reward(std::span<DrawnText> drawn, std::int64_t first_prompt,
              const std::function<bool()>& ends) const;
  // Rank 0 judges, and all know; false where the run is to end.
  bool judge(std::span<DrawnText> drawn, const Drawing& drawing) const;
  void refer(std::span<DrawnText> drawn, const Group& ranks) const;
  void learn_from(std::span<DrawnText> drawn, const Drawing& drawing, double seconds) const;
  void keep(std::span<const DrawnText> drawn, std::int64_t iteration) const;
  const PolicyPrompt& prompt(std::int64_t number) const {
    return parts_.prompts[static_cast<std::size_t>(number % std::ssize(parts_.prompts))];
  }

  PolicyOptions options_;
  PolicyObjective objective_;
  Parts parts_;
  std::vector<RewardProgram> programs_;
  std::vector<std::unique_ptr<ScorePass>> score_reference_;  // of each rank of this process
  std::unique_ptr<SampleSet> set_;
  DrawnSamples* samples_ = nullptr;  // the set's
  std::uint64_t seed_ = 0;
  Log log_;
  mutable int failed_steps_ = 0;  // in a row, in which a program said nothing
};

// Reads the prompts of a run and completes its options.  After PolicyOptions::take_losses().
std::unique_ptr<Task> open_drawing(PolicyOptions& options, const Log& log);

}  // namespace mt
