// PolicyOptions: what `mt-finetune grpo` can be told.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "infer/chat_prompts.h"
#include "kernels/policy_loss.h"
#include "kernels/sample.h"
#include "post/finetune_options.h"
#include "post/policy/advantages.h"
#include "post/policy/policy_objective.h"

namespace mt {

struct PolicyOptions : FinetuneOptions {
  std::vector<std::string> rollouts, prompts, rewards;
  std::vector<std::string> programs = {};  // those of the rewards that are cmd:PROGRAM
  double reward_timeout = 60;              // seconds
  std::string save_rollouts, reference;
  Sampling sampling = {};  // without the seed, which is the run's
  ChatOptions chat;
  std::int64_t num_generations = 8;
  std::string loss = "dapo", level = "token", estimator = "k3", estimate_weight = "ratio";
  std::string correction = "none", scale = "group";
  std::optional<double> clip_high, epsilon;
  std::optional<std::int64_t> max_completion_length;
  PolicyRules rules;
  PolicyShare share = PolicyShare::of_tokens;
  AdvantageRules advantages;

  PolicyOptions();
  void add_to(CommandLine& cl);
  // Completes the rules.  After parse().
  void take_losses();
  // Exit::usage where an option was given that has no effect beside the others.  After
  // take_losses().
  void check_unused(const CommandLine& cl) const;
  void complete();
  std::vector<std::string> rules_of_rewards() const;  // those that are no programs

 private:
  void add_losses_to(CommandLine& cl);
  void check_drawing(const CommandLine& cl) const;
  void complete_drawing() const;
};

}  // namespace mt
