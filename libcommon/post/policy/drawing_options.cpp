// What PolicyOptions has of texts that the model itself writes.
#include <algorithm>

#include "base/command.h"
#include "formats/model_source.h"
#include "post/policy/drawn_texts.h"
#include "post/policy/policy_options.h"
#include "post/policy/rewards.h"
#include "train/run/drawing_model.h"

namespace mt {

std::string PolicyOptions::environment_program() const {
  constexpr std::string_view kProgram = "cmd:";
  return environment.starts_with(kProgram) ? environment.substr(kProgram.size()) : "";
}

// Who draws texts by the weights that learn from them once has no ratios but 1.
void PolicyOptions::check_drawing(const CommandLine& cl) const {
  const auto refuse = [&](std::initializer_list<const char*> options, const char* why) {
    for (const char* const option : options)
      if (cl.given(option)) fail(Exit::usage, option, ": ", why);
  };
  if (prompts.empty()) {
    refuse({"--top-k", "--top-p", "--stop", "--save-rollouts", "--reference", "--chat-template",
            "--chat-template-kwargs", "--dynamic-sampling", "--overlong-buffer", "--max-lag",
            "--valid-prompts", "--environment", "--rl-inference-tensor-model-parallel-size",
            "--rl-generation-ranks", "--in-flight-weight-updates"},
           "has no effect without --prompts");
    for (const RewardRule& rule : reward_rules(rewards))
      if (rule.asks())
        fail(Exit::usage, "--reward ", rule.name, ":", rule.argument,
             ": judges the texts of --prompts alone");
    return;
  }
  refuse({"--rollouts", "--moe-route-trace", "--moe-route-replay"}, "not with --prompts");
  if (std::ranges::count(stop, "") > 0) fail(Exit::usage, "--stop: expected a text");
  if (!advantages.compares)
    refuse({"--dynamic-sampling"},
           "not with --no-baseline, with which texts that are worth the same are learnt from");
  if (advantages.beta > 0)
    refuse({"--dynamic-sampling"},
           "not with a --kl-place in what texts are worth, of which groups are not chosen");
  if (has_values())
    refuse({"--dynamic-sampling"}, "not with --advantage gae, which compares no texts");
  if (num_generations > kMostTexts / (dynamic_sampling + 1))
    fail(Exit::usage, "--num-generations ", num_generations, ": with --dynamic-sampling ",
         dynamic_sampling, " more than ", kMostTexts, " texts of a prompt");
  if (generation_ranks > 0 && max_lag == 0)
    fail(Exit::usage, "--rl-generation-ranks ", generation_ranks,
         ": needs --max-lag, by which texts are drawn while others are learnt from");
  if (generation_ranks > 0)
    refuse({"--dynamic-sampling", "--rl-inference-tensor-model-parallel-size",
            "--in-flight-weight-updates"},
           "not with --rl-generation-ranks");
  if (in_flight && max_lag == 0)
    fail(Exit::usage,
         "--in-flight-weight-updates: needs --max-lag, by which texts are drawn ahead");
  if (in_flight)
    refuse({"--dynamic-sampling", "--environment"}, "not with --in-flight-weight-updates");
  if (max_lag == 0)
    refuse({"--importance-correction"},
           "has no effect with --prompts and a --max-lag of 0: the model that learns writes texts");
  if (!needs_old())
    refuse({"--clip-low", "--clip-high", "--clip-delta", "--clip-dual", "--sapo-temperature-pos",
            "--sapo-temperature-neg", "--vespo-k-pos", "--vespo-k-neg", "--vespo-lambda-pos",
            "--vespo-lambda-neg", "--value-clip"},
           "has no effect with --prompts, each text of which is learnt from once");
  if (overlong_buffer > 0 && overlong_buffer > max_completion_length.value_or(0))
    fail(Exit::usage, "--overlong-buffer ", overlong_buffer,
         ": expected a --max-completion-length that is not below it");
  if (is_planned()) {
    for (const RewardRule& rule : reward_rules(rewards))
      if (rule.is_model()) open_model(rule.argument, {.check_while_reading = true});
    return;
  }
  if (rewards.empty() && environment.empty())
    fail(Exit::usage, "--reward or --environment: required with --prompts");
  if (has_reference() && reference.empty() && !stored)
    fail(Exit::usage, "--reference: required with --prompts and --beta where nothing is loaded");
  if (!has_reference()) refuse({"--reference"}, "has no effect with a --beta of 0");
}

// Where it cannot be kept that drawing and learning say the same.
void PolicyOptions::check_invariant() const {
  if (!model.batch_invariant) return;
  const auto refuse = [](const auto&... why) {
    fail(Exit::bad_config, "--batch-invariant: not ", why...);
  };
  const ParallelSizes sizes = run.ranks.sizes();
  if (sizes.tp > 1 || sizes.ep > 1 || sizes.cp > 1 || (!prompts.empty() && ranks_together() > 1))
    refuse("with ranks that share matrices, experts or sequences");
  if (sampling.temperature != 1) refuse("with --temperature ", sampling.temperature);
  if (!run.fp8.format.empty()) refuse("with --fp8-format ", run.fp8.format);
  if (model.multi_latent_attention) refuse("with latent attention");
  if (model.moe_expert_capacity_factor > 0)
    refuse("with --moe-expert-capacity-factor ", model.moe_expert_capacity_factor);
  if (model.moe_input_jitter_eps > 0)
    refuse("with --moe-input-jitter-eps ", model.moe_input_jitter_eps);
  if (model.logit_scale != 1) refuse("with logits that are multiplied by ", model.logit_scale);
}

// Who draws for others has all of the model.
int PolicyOptions::ranks_together() const {
  if (inference_tensor_ranks) return *inference_tensor_ranks;
  const int ranks = run.ranks.parallel.tensor_model_parallel_size;
  return run.ranks.drawers > 0 || !why_not_together(ranks).empty() ? 1 : ranks;
}

void PolicyOptions::take_drawers() {
  if (generation_ranks == 0) return;
  RankOptions& ranks = run.ranks;
  const auto refuse = [&](const auto&... why) {
    fail(Exit::bad_config, "--rl-generation-ranks ", generation_ranks, ": ", why...);
  };
  if (plan.search) refuse("not with --plan-search");
  const bool are_gpus = ranks.has_processes() || plan.machine.is_named();
  if (!are_gpus && run.device() != Device::cpu)
    refuse("of several ranks, see --gpus, and --ranks with --device cpu");
  if (!are_gpus) run.compute.device_name = "cpu";
  if (generation_ranks >= ranks.count) refuse("none of ", ranks.count, " ranks is left to learn");
  ranks.drawers = generation_ranks;
  ranks.count -= generation_ranks;
}

// Why so many ranks cannot draw by parts of the model's matrices; empty: they can.
std::string PolicyOptions::why_not_together(int ranks) const {
  if (ranks == 1) return {};
  if (model.num_experts > 0 && model.add_bias_linear)
    return "expected 1 of experts with biases, which one rank adds";
  if (model.qk_layernorm_whole) return "not with --qk-layernorm-whole, whose ranks have some heads";
  for (const auto& [number, what] :
       {std::pair(model.num_attention_heads, "heads"),
        std::pair(model.multi_latent_attention ? 0 : model.kv_heads(), "key heads"),
        std::pair(model.has_mlps() ? model.ffn() : 0, "channels of an MLP"),
        std::pair(model.num_experts > 0 ? model.expert_ffn() : 0, "channels of an expert"),
        std::pair(model.moe_shared_expert_intermediate_size, "channels of the shared expert"),
        std::pair(model.padded_vocab_size, "words, padded")})
    if (number % ranks != 0) return concat("does not divide ", number, " ", what);
  return {};
}

void PolicyOptions::check_shares() const {
  const int ranks = ranks_together();
  if (const std::string why = why_not_together(ranks); !why.empty())
    fail(Exit::bad_config, "--rl-inference-tensor-model-parallel-size ", ranks, ": ", why);
}

// Those that draw together have the same layers in training, so that each gets its part of a layer
// from one stage.
void PolicyOptions::check_together() const {
  const int ranks = ranks_together();
  if (const std::int64_t all = DrawingModel::ranks_of_layers(run.ranks.sizes()); all % ranks != 0)
    fail(Exit::bad_config, "--rl-inference-tensor-model-parallel-size ", ranks,
         ": does not divide ", all, " ranks, of consecutive numbers, that have the same layers");
  check_shares();
}

// Each rank draws its part of a step, or those that draw together theirs.
void PolicyOptions::complete_drawing() {
  if (prompts.empty()) return;
  if (!model.quantize_base.empty() &&
      (run.ranks.drawers > 0 || DrawingModel::is_due(run, ranks_together())))
    fail(Exit::bad_config, "--quantize-base ", model.quantize_base,
         ": with --prompts alone where each rank has all layers, of which it draws by what it "
         "trains, as packed weights are not put together");
  if (check_layout) fail(Exit::usage, "--check-layout: not with --prompts; give --rollouts");
  if (run.batch.schedule.changes())
    fail(Exit::usage, "--prompts: not with a batch size that changes");
  // From these a run goes on that is saved between two steps that share texts, or has drawn ahead.
  if ((needs_old() || max_lag > 0) && save_rollouts.empty() && !run.checkpoint.save.empty())
    save_rollouts = kept_beside(run.checkpoint.save);
}

// Steps that share texts have them in their order, and texts that are drawn ahead are of a step.
void PolicyOptions::complete_passes() const {
  if (run.batch.largest() > (std::int64_t{1} << 40) / steps_per_generation / num_iterations)
    fail(Exit::bad_config, "--global-batch-size ", run.batch.largest(), ", --steps-per-generation ",
         steps_per_generation, ", --num-iterations ", num_iterations,
         ": their product is above 2^40");
  if (!needs_old() && max_lag == 0) return;
  const char* const option = num_iterations > 1         ? "--num-iterations"
                             : steps_per_generation > 1 ? "--steps-per-generation"
                                                        : "--max-lag";
  if (run.batch.schedule.changes())
    fail(Exit::usage, option, ": not with a batch size that changes");
  if (!run.checks.iterations_to_skip.empty())
    fail(Exit::usage, "--iterations-to-skip: not with ", option);
}

// Where nothing says how long completions may be, texts are supposed to be half of them.
std::optional<DrawnWork> PolicyOptions::drawn_work() const {
  if (prompts.empty()) return std::nullopt;
  const std::int64_t completion =
      std::min(max_completion_length.value_or(seq_length / 2), seq_length - 1);
  return DrawnWork{.texts = texts_at_once(),
                   .group = num_generations,
                   .prompt = seq_length - completion,
                   .completion = completion,
                   .steps = steps_per_generation * num_iterations,
                   .asks = asks_old() && (!model.batch_invariant || has_values()),
                   .together = ranks_together(),
                   .in_flight = in_flight ? max_lag : 0};
}

}  // namespace mt
