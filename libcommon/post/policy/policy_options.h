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
#include "post/policy/judging_server.h"
#include "post/policy/policy_objective.h"
#include "post/policy/policy_samples.h"

namespace mt {

// Where a run keeps texts that it goes on from, if it is told no other folder.
inline std::string kept_beside(const std::string& save) { return save + "/rollouts"; }

struct PolicyOptions : FinetuneOptions {
  std::vector<std::string> rollouts, prompts, valid_prompts, rewards;
  double reward_timeout = 60, environment_timeout = 60;  // seconds
  int reward_jobs = 1;                                   // copies of each program
  std::string environment;
  std::int64_t max_turns = 8;
  JudgingOptions judging;
  std::string save_rollouts, reference;
  Sampling sampling = {};  // without the seed, which is the run's
  std::vector<std::string> stop = {};
  ChatOptions chat;
  std::int64_t num_generations = 8;
  std::int64_t valid_generations = 1;
  double pass_reward = 1;
  std::int64_t num_iterations = 1, steps_per_generation = 1;
  std::string packing = "none";
  std::int64_t max_lag = 0;  // draws that are drawn ahead
  std::optional<int> inference_tensor_ranks;
  int generation_ranks = 0;           // of all, the last
  bool in_flight = false;             // what is drawn ahead gets some tokens before each step
  std::int64_t dynamic_sampling = 0;  // further draws of a step, at most
  bool masks_truncated = false;
  std::int64_t overlong_buffer = 0;
  double overlong_penalty = 1;
  std::string advantage = "group";
  GaeRules gae;  // of --advantage gae
  PolicyObjective::OfValues of_values{.weight = 0.1, .clip = 0.2};
  std::string loss = "dapo", level = "token", estimator = "k3", estimate_weight = "ratio";
  std::string correction = "none", kl_place = "loss";
  std::optional<std::string> scale_rewards;
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
  // As far as layouts are alike that --plan-search tries; check_shares() and check_contexts() are
  // of each.
  void complete_for_search();
  // Exit::bad_config where ranks cannot draw together by parts of the model's matrices, or where
  // they share sequences and ratios are of whole texts.
  void check_shares() const;
  void check_contexts() const;

  // Whether the divergence from another model counts.
  bool has_reference() const { return rules.beta > 0 || advantages.beta > 0; }
  // Whether advantages are of what a value head says.  After take_losses().
  bool has_values() const { return advantages.gae.has_value(); }
  // Whether ratios of probabilities can be other than 1 in some step that learns from a text.
  bool needs_old() const { return num_iterations > 1 || steps_per_generation > 1; }
  // Whether the divergence is weighed by what is known of who generated a text.
  bool needs_generated() const { return rules.beta > 0 && rules.kl.weight == KlWeight::generated; }
  // Whether it has to be known what the policy said of a text when it was written.
  bool asks_old() const {
    return needs_old() || max_lag > 0 || advantages.beta > 0 || needs_generated() || has_values();
  }
  // That are drawn at once.  After complete().
  std::int64_t texts_at_once() const { return run.batch.largest() * steps_per_generation; }
  // Ranks that draw by parts of the same matrices.  After complete().
  int ranks_together() const;
  Packing packed() const { return packing_of(packing); }
  std::optional<DrawnWork> drawn_work() const;  // nothing where none are drawn
  std::string environment_program() const;      // empty: there is none
  std::string scale() const;                    // what advantages are divided by
  PolicySamples::How how_learnt() const;
  // Experts that each token brings, with --moe-enable-routing-replay; 0: routers choose.
  std::int64_t choices() const {
    return run.routing.enabled ? model.num_layers * model.moe_router_topk : 0;
  }
  PolicyObjective::How how_counted() const;

 private:
  void check_drawing(const CommandLine& cl) const;
  std::string why_not_together(int ranks) const;
  void check_method();
  void check_steps() const;
  void complete_passes() const;
  void check_invariant() const;
  void take_drawers();
  void check_together() const;
  void complete_drawing();
};

}  // namespace mt
