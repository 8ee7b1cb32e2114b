#include "post/policy/policy_options.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/command.h"
#include "post/policy/drawn_texts.h"
#include "post/policy/rewards.h"

namespace mt {
namespace {

struct Named {
  const char* name;
  PolicyLoss loss;
  PolicyShare share;
};
constexpr auto kLosses =
    std::to_array<Named>({{"grpo", PolicyLoss::clipped, PolicyShare::of_texts},
                          {"bnpo", PolicyLoss::clipped, PolicyShare::of_micro_batch},
                          {"dapo", PolicyLoss::clipped, PolicyShare::of_tokens},
                          {"dr_grpo", PolicyLoss::clipped, PolicyShare::of_longest},
                          {"luspo", PolicyLoss::clipped, PolicyShare::of_sums},
                          {"cispo", PolicyLoss::cispo, PolicyShare::of_tokens},
                          {"sapo", PolicyLoss::sapo, PolicyShare::of_texts},
                          {"reinforce", PolicyLoss::reinforce, PolicyShare::of_tokens},
                          {"vespo", PolicyLoss::vespo, PolicyShare::of_tokens}});
constexpr std::array kEstimators = {"k1", "k2", "k3"};
constexpr std::array kKlWeights = {"ratio", "none", "one", "generated"};
constexpr std::array kKlPlaces = {"loss", "reward", "advantage"};
constexpr std::array kLevels = {"token", "sequence", "product"};
constexpr std::array kCorrections = {"none", "truncate", "drop"};
constexpr std::array kAdvantages = {"group", "gae"};
constexpr std::array kScales = {"group", "population", "batch", "texts", "tokens", "none"};

template <class Enum, std::size_t kCount>
Enum named(const std::array<const char*, kCount>& names, const std::string& name) {
  return static_cast<Enum>(std::ranges::find(names, name) - names.begin());
}

template <std::size_t kCount>
std::vector<std::string> list_of(const std::array<const char*, kCount>& names) {
  return {names.begin(), names.end()};
}

std::vector<std::string> whole_packings() {
  std::vector<std::string> names = packing_names();
  std::erase_if(names, cuts_texts);
  return names;
}

bool has_any(const std::vector<std::string>& rewards, bool (RewardRule::*is_so)() const) {
  return std::ranges::any_of(reward_rules(rewards), is_so);
}

// How losses of tokens become one.
void add_loss(PolicyOptions& o, CommandLine& cl) {
  std::vector<std::string> names;
  for (const Named& one : kLosses) names.emplace_back(one.name);
  cl.option("--loss", &o.loss, "NAME",
            "how losses of tokens are added up, and, of the last four, what they are; grpo: the "
            "mean of each text, then of texts; bnpo: of a micro-batch's tokens; dapo, cispo, "
            "reinforce and vespo: of a step's; dr_grpo: their sum by --max-completion-length, then "
            "the mean of "
            "texts; luspo: the mean of texts' sums; sapo: as grpo",
            one_of(names));
  cl.option("--max-completion-length", &o.max_completion_length, "N",
            "how many tokens a completion may have; of --rollouts dr_grpo alone asks for it",
            at_least(1));
}

// What a token was better than, and by how much.
void add_advantages(PolicyOptions& o, CommandLine& cl) {
  cl.option("--advantage", &o.advantage, "HOW",
            "what a token is better than: its text than others of its group; or, of gae, what a "
            "value head, which is learnt beside the policy, says of all of them",
            one_of(list_of(kAdvantages)));
  cl.option("--gae-lambda", &o.gae.lambda, "F",
            "of gae: by how much less a token counts in the advantage of the one before",
            between(0, 1));
  cl.option("--gae-gamma", &o.gae.gamma, "F", "of gae: and its value in the one before's",
            between(0, 1));
  cl.option("--value-loss-weight", &o.of_values.weight, "F",
            "of gae: what weighs half the square of how far values are from what they were",
            at_least(0));
  cl.option(
      "--value-clip", &o.of_values.clip, "F",
      "of gae: how far a value counts at most from what it was before its text was first learnt "
      "from; 0: any",
      at_least(0));
  cl.flag("--leave-one-out", &o.advantages.leaves_out,
          "a text is compared with the others of its group, without itself");
  cl.off_switch("--no-baseline", &o.advantages.compares,
                "a text is compared with no other: of --scale-rewards texts, tokens or none");
  cl.option("--scale-rewards", &o.scale_rewards, "HOW",
            "what advantages are divided by: the standard deviation of their group's rewards, that "
            "of a population, that of the step's batch, or none; or that of the advantages of the "
            "batch's texts, or of its tokens, less their mean, or of gae none; default: group, of "
            "gae tokens",
            one_of(list_of(kScales)));
  cl.option("--advantage-epsilon", &o.epsilon, "F",
            "is added to that deviation, but of tokens; default: 1e-4, with --leave-one-out 1e-6, "
            "but of texts",
            greater_than(0));
}

// How far a token counts that has become likelier or less likely.
void add_ratios(PolicyOptions& o, CommandLine& cl) {
  cl.option(
      "--importance-sampling-level", &o.level, "WHAT",
      "whose ratio of probabilities is clipped: each token's, a text's mean, or the product of "
      "a text's",
      one_of(list_of(kLevels)));
  cl.option("--clip-low", &o.rules.low, "F", "how far below 1 a ratio counts", between(0, 1));
  cl.option("--clip-high", &o.clip_high, "F",
            "how far above 1 a ratio counts; of cispo, what it counts at most; default: "
            "--clip-low, of cispo 5",
            at_least(0));
  cl.option("--clip-delta", &o.rules.delta, "F",
            "what a ratio that is not clipped counts at most; 0: as it is", at_least(0));
  cl.option("--clip-dual", &o.rules.dual, "F",
            "how many times its advantage a bad token's loss is at most; 0: any number",
            at_least(0));
  cl.option("--sapo-temperature-pos", &o.rules.tau[0], "F", "of sapo: of good tokens",
            greater_than(0));
  cl.option("--sapo-temperature-neg", &o.rules.tau[1], "F", "of sapo: of the others",
            greater_than(0));
  cl.option("--vespo-k-pos", &o.rules.k[0], "F", "of vespo: the exponent of good texts",
            at_least(0));
  cl.option("--vespo-k-neg", &o.rules.k[1], "F", "of vespo: of bad ones", at_least(0));
  cl.option("--vespo-lambda-pos", &o.rules.lambda[0], "F", "of vespo: the decay of good texts",
            greater_than(0));
  cl.option("--vespo-lambda-neg", &o.rules.lambda[1], "F", "of vespo: of bad ones",
            greater_than(0));
}

// What keeps the model near another, and near who generated a text.
void add_divergence(PolicyOptions& o, CommandLine& cl) {
  cl.option("--beta", &o.rules.beta, "F",
            "what the divergence from the model that the run began with weighs", at_least(0));
  cl.option("--kl-place", &o.kl_place, "WHERE",
            "where it counts: in the loss of each token; or, as the model was when it wrote the "
            "text, its sum in the text's reward, or each token's in the token's advantage",
            one_of(list_of(kKlPlaces)));
  cl.option("--kl-estimator", &o.estimator, "NAME", "how that is estimated",
            one_of(list_of(kEstimators)));
  cl.option("--kl-weight", &o.estimate_weight, "WHAT",
            "what an estimate is multiplied by: the ratio of probabilities; nothing; one, that has "
            "a gradient; or the ratio by log_probs",
            one_of(list_of(kKlWeights)));
  cl.option("--kl-most-log-ratio", &o.rules.kl.most_log_ratio, "F",
            "how far from 0 the logarithm is at most that is estimated by; 0: as it is",
            at_least(0));
  cl.option("--kl-most", &o.rules.kl.most, "F", "likewise: the estimate, weighed", at_least(0));
  cl.option("--entropy-term-weight", &o.rules.entropy, "F",
            "what p log p of the tokens that were taken weighs", at_least(0));
  cl.option("--importance-correction", &o.correction, "HOW",
            "what becomes of a token's weight, old_log_probs by log_probs, outside of bounds: it "
            "is truncated to them, or dropped; none: all weigh the same",
            one_of(list_of(kCorrections)));
  cl.option("--importance-min", &o.rules.correction_low, "F", "the lower bound", at_least(0));
  cl.option("--importance-max", &o.rules.correction_high, "F", "the upper bound", greater_than(0));
}

// What is asked, and what an answer is worth.
void add_prompts(PolicyOptions& o, CommandLine& cl) {
  cl.option("--prompts", &o.prompts, "FILE",
            "what the model writes texts for, anew in each step: files of a JSON object a line; "
            "plain, gzip, bzip2, zstd or Parquet; - is stdin");
  cl.option("--rollouts", &o.rollouts, "FILE",
            "instead: texts that were generated and rewarded, likewise");
  cl.option("--valid-prompts", &o.valid_prompts, "FILE",
            "with --prompts: what it writes texts for at each --eval-interval and at the end, and "
            "does not learn from: files, likewise");
  cl.option("--valid-generations", &o.valid_generations, "N", "texts of each of these",
            between(1, kMostTexts));
  cl.option("--pass-reward", &o.pass_reward, "F",
            "the reward from which on such a text is right, which pass@k counts");
  cl.option("--reward", &o.rewards, "NAME[=WEIGHT]",
            "what a text is worth, next to its line's answer, instead of its line's reward: exact, "
            "number, math, dapo-math, mc, format, length:CHARACTERS or regex:EXPRESSION, or with "
            "--prompts cmd:PROGRAM, what a "
            "program says, judge:URL, what the model of a server says, or rm:PATH, what a reward "
            "model says; a weight stands in front of a colon; several are added up");
  cl.option("--reward-timeout", &o.reward_timeout, "SECONDS",
            "how long a program or a server may take for the texts of a step", greater_than(0));
  o.judging.add_to(cl);
  cl.option("--reward-jobs", &o.reward_jobs, "N",
            "copies of each program of --reward and --environment that run at once, each asked for "
            "its part of the texts",
            between(1, 1024));
  cl.option(
      "--environment", &o.environment, "cmd:PROGRAM",
      "with --prompts: a program that answers what the model says, so that texts have several "
      "turns, and says what these are worth");
  cl.option("--environment-timeout", &o.environment_timeout, "SECONDS",
            "how long it may take for a turn of the texts of a step", greater_than(0));
  cl.option("--max-turns", &o.max_turns, "N", "turns of a text, at most", between(1, kMostTurns));
}

// Which texts a step learns from, and who draws them.
void add_steps(PolicyOptions& o, CommandLine& cl) {
  cl.option("--num-generations", &o.num_generations, "N",
            "texts of one prompt, of which 2 at least are compared", between(1, kMostTexts));
  cl.option("--steps-per-generation", &o.steps_per_generation, "N",
            "steps that share the texts that are drawn at once, --global-batch-size for each",
            between(1, kMostTexts));
  cl.option("--num-iterations", &o.num_iterations, "N",
            "how often these are learnt from before the next are drawn", between(1, kMostTexts));
  cl.option(
      "--packing", &o.packing, "HOW",
      "how texts of a step share samples of --seq-length tokens, which do not see each other, "
      "so that a step takes as many micro-batches as they need",
      one_of(whole_packings()));
  cl.option(
      "--max-lag", &o.max_lag, "N",
      "with --prompts: how many draws ahead of the steps that learn from them texts are drawn, "
      "by the weights of then",
      between(0, kMostTexts));
  cl.option("--rl-inference-tensor-model-parallel-size", &o.inference_tensor_ranks, "N",
            "with --prompts: ranks that draw texts together, by parts of the same matrices; "
            "default: --tensor-model-parallel-size, or 1 where these cannot have such parts",
            at_least(1));
  cl.flag(
      "--in-flight-weight-updates", &o.in_flight,
      "with --max-lag: texts that are drawn ahead get a part of their tokens before each step, by "
      "the weights of then");
  cl.option(
      "--rl-generation-ranks", &o.generation_ranks, "N",
      "with --max-lag: so many of the ranks, the last ones, draw texts while the others learn; "
      "0: all do both",
      at_least(0));
}

// How they are chosen and drawn.
void add_drawing(PolicyOptions& o, CommandLine& cl) {
  cl.option("--dynamic-sampling", &o.dynamic_sampling, "N",
            "with --prompts: leave out groups whose texts are all worth the same, and ask the "
            "prompts behind in their place, so often in a step at most",
            between(0, kMostTexts));
  cl.option("--overlong-buffer", &o.overlong_buffer, "N",
            "with --prompts: a text that has more than --max-completion-length tokens less these "
            "is worth less, the more the longer; 0: none is",
            at_least(0));
  cl.option("--overlong-penalty", &o.overlong_penalty, "F", "by how much, where it has all of them",
            greater_than(0));
  cl.flag("--mask-truncated-completions", &o.masks_truncated,
          "do not learn from texts that were cut, which still count in their groups");
  cl.option("--temperature", &o.sampling.temperature, "F",
            "what logits are divided by, of which tokens are drawn and all probabilities are",
            at_least(0.001));
  cl.option("--top-k", &o.sampling.top_k, "N",
            "with --prompts: draw from so many likeliest tokens; 0: from all", at_least(0));
  cl.option("--top-p", &o.sampling.top_p, "F",
            "with --prompts: draw from the likeliest tokens, of this probability together; 0 or 1: "
            "from all",
            between(0, 1));
  cl.repeated(
      "--stop", &o.stop, "TEXT",
      "with --prompts: a text ends behind this one, too, which the model has written; of an "
      "--environment, a turn does");
  cl.flag("--batch-invariant", &o.model.batch_invariant,
          "on the CPU: what the model says of a token while it draws is to the bit what it says "
          "while it learns, which then is not asked of the texts of --prompts that several steps "
          "share; slower");
  cl.option(
      "--save-rollouts", &o.save_rollouts, "FOLDER",
      "with --prompts: keep each step's texts there, as --rollouts reads them; those of another "
      "run are replaced with --force alone; default: SAVE/rollouts where several steps learn "
      "from the same, or with --max-lag");
  cl.option("--reference", &o.reference, "PATH",
            "with --prompts and --beta: the model that the policy stays near: what --load may be; "
            "default: what the run began with, of adapters their model");
  o.chat.add_to(cl);
}

}  // namespace

PolicyOptions::PolicyOptions() {
  without_dropout = true;
  run.schedule.lr = 1e-6;
  lr_of_adapters = "1e-5";
  data.shuffle = false;
}

void PolicyOptions::add_to(CommandLine& cl) {
  cl.section("Data");
  add_prompts(*this, cl);
  add_steps(*this, cl);
  add_drawing(*this, cl);
  cl.section("Objective");
  add_loss(*this, cl);
  add_advantages(*this, cl);
  add_ratios(*this, cl);
  add_divergence(*this, cl);
  offers_adapters = true;
  add_run_to(cl);
}

void PolicyOptions::take_losses() {
  advantages.gae = advantage == "gae" ? std::optional(gae) : std::nullopt;
  advantages.scale = named<RewardScale>(kScales, scale());
  if (has_values() && advantages.scale < RewardScale::tokens)
    fail(Exit::usage, "--scale-rewards ", scale(), ": not with --advantage gae; tokens or none");
  if (has_values() && kl_place == "advantage")
    fail(Exit::usage,
         "--kl-place advantage: not with --advantage gae; reward puts each token's "
         "into its own");
  if (!has_values() && advantages.compares && num_generations < 2)
    fail(Exit::bad_config, "--num-generations ", num_generations,
         ": a text is compared with others of its prompt, of which are 2 at least");
  if (!advantages.compares && advantages.scale < RewardScale::texts)
    fail(Exit::usage, "--scale-rewards ", scale(), ": not with --no-baseline");
  if (!environment.empty() && environment_program().empty())
    fail(Exit::usage, "--environment ", environment, ": expected cmd:PROGRAM");
  reward_rules(rewards);  // which says what is wrong with them before any work
  const Named& one = *std::ranges::find(kLosses, loss, &Named::name);
  rules.loss = one.loss;
  share = one.share;
  if (share == PolicyShare::of_longest && !max_completion_length)
    fail(Exit::usage, "--max-completion-length: required with --loss dr_grpo");
  rules.ratio_of = named<RatioOf>(kLevels, level);
  if (rules.of_texts() && rules.loss == PolicyLoss::vespo)
    fail(Exit::usage, "--importance-sampling-level ", level,
         ": not with --loss vespo, which has its own");
  rules.high = clip_high.value_or(rules.loss == PolicyLoss::cispo ? 5 : rules.low);
  rules.kl.estimate = named<KlEstimate>(kEstimators, estimator);
  rules.kl.weight = named<KlWeight>(kKlWeights, estimate_weight);
  rules.correction = named<Correction>(kCorrections, correction);
  if (rules.correction_low > rules.correction_high)
    fail(Exit::usage, "--importance-min ", rules.correction_low, ": above --importance-max ",
         rules.correction_high);
  advantages.epsilon = epsilon.value_or(
      advantages.leaves_out && advantages.scale != RewardScale::texts ? 1e-6 : 1e-4);
  advantages.kl_place = named<KlPlace>(kKlPlaces, kl_place);
  advantages.kl = rules.kl;
  advantages.masks_truncated = masks_truncated;
  if (advantages.kl_place != KlPlace::loss && rules.beta > 0)
    advantages.beta = std::exchange(rules.beta, 0);
  rules.tells_kl = rules.beta > 0 || advantages.beta > 0;
  run.batch.calculate_per_token_loss = share != PolicyShare::of_micro_batch;
}

void PolicyOptions::check_unused(const CommandLine& cl) const {
  const auto refuse = [&](bool unused, std::initializer_list<const char*> options,
                          const auto&... beside) {
    for (const char* const option : options)
      if (unused && cl.given(option)) fail(Exit::usage, option, ": has no effect with ", beside...);
  };
  refuse(share != PolicyShare::of_longest && prompts.empty(), {"--max-completion-length"},
         "--loss ", loss);
  refuse(rules.loss != PolicyLoss::clipped, {"--clip-low", "--clip-delta", "--clip-dual"},
         "--loss ", loss);
  refuse(rules.loss != PolicyLoss::clipped && rules.loss != PolicyLoss::cispo, {"--clip-high"},
         "--loss ", loss);
  refuse(rules.loss != PolicyLoss::sapo, {"--sapo-temperature-pos", "--sapo-temperature-neg"},
         "--loss ", loss);
  refuse(rules.loss != PolicyLoss::vespo,
         {"--vespo-k-pos", "--vespo-k-neg", "--vespo-lambda-pos", "--vespo-lambda-neg"}, "--loss ",
         loss);
  refuse(!has_reference(),
         {"--kl-estimator", "--kl-weight", "--kl-place", "--kl-most-log-ratio", "--kl-most"},
         "a --beta of 0");
  refuse(advantages.beta > 0, {"--kl-weight"}, "--kl-place ", kl_place);
  refuse(rules.loss == PolicyLoss::reinforce &&
             !(rules.beta > 0 && rules.kl.weight == KlWeight::ratio),
         {"--importance-sampling-level"}, "--loss ", loss);
  refuse(!advantages.compares, {"--leave-one-out"}, "--no-baseline");
  refuse(has_values(), {"--leave-one-out", "--no-baseline"}, "--advantage gae");
  refuse(!has_values(), {"--gae-lambda", "--gae-gamma", "--value-loss-weight", "--value-clip"},
         "--advantage group");
  refuse(rules.correction == Correction::none, {"--importance-min", "--importance-max"},
         "--importance-correction none");
  refuse(advantages.scale >= RewardScale::tokens, {"--advantage-epsilon"}, "--scale-rewards ",
         scale());
  if (cl.given("--calculate-per-token-loss"))
    fail(Exit::usage, "--calculate-per-token-loss: of grpo --loss says what is divided by what");
  const bool has_server = has_any(rewards, &RewardRule::is_server);
  refuse(!has_server && !has_any(rewards, &RewardRule::is_program), {"--reward-timeout"},
         "a --reward that is neither program nor server");
  refuse(environment.empty() && !has_any(rewards, &RewardRule::is_program), {"--reward-jobs"},
         "a --reward that is no program and no --environment");
  refuse(!has_server,
         {"--judge-prompt", "--judge-model", "--judge-max-tokens", "--judge-requests",
          "--judge-api-key-file"},
         "a --reward that is no server");
  refuse(overlong_buffer == 0, {"--overlong-penalty"}, "an --overlong-buffer of 0");
  refuse(!has_full_validation && run.evaluation.eval_iters == 0, {"--valid-prompts"},
         "an --eval-iters of 0");
  refuse(valid_prompts.empty(), {"--valid-generations", "--pass-reward"},
         "an empty --valid-prompts");
  refuse(!valid_prompts.empty(), {"--eval-global-batch-size"}, "--valid-prompts");
  refuse(environment.empty(), {"--environment-timeout", "--max-turns"}, "an empty --environment");
  check_drawing(cl);
}

std::string PolicyOptions::scale() const {
  return scale_rewards.value_or(advantage == "gae" ? "tokens" : "group");
}

PolicySamples::How PolicyOptions::how_learnt() const {
  return {.passes = {.texts = texts_at_once(), .times = num_iterations},
          .masks_truncated = masks_truncated,
          .packing = packed(),
          .values = has_values(),
          .choices = choices()};
}

PolicyObjective::How PolicyOptions::how_counted() const {
  return {.share = share,
          .longest = max_completion_length.value_or(1),
          .seq_length = seq_length,
          .temperature = sampling.temperature,
          .texts = texts_of_sample(packed()),
          .values = has_values() ? std::optional(of_values) : std::nullopt};
}

// What is of the run whatever its layout is.
void PolicyOptions::check_method() {
  if (model_type != "gpt")
    fail(Exit::bad_config, "--model-type ", model_type, ": grpo trains models of type gpt");
  encoder.check_unused("--model-type gpt");
  check_contexts();
  if (model.label_smoothing > 0)
    fail(Exit::bad_config, "--label-smoothing ", model.label_smoothing,
         ": not with grpo, whose losses are of log-probabilities");
  if (model.output_bias && sampling.temperature != 1)
    fail(Exit::bad_config, "--temperature ", sampling.temperature,
         ": a model whose output layer has a bias learns at a temperature of 1 alone");
  model.value_head = has_values();
  run.routing.of_texts = true;
  model.keeps_choices = run.routing.enabled && !prompts.empty();
  take_drawers();
}

void PolicyOptions::check_contexts() const {
  if (run.ranks.parallel.context_parallel_size > 1 && rules.needs_texts())
    fail(Exit::bad_config, "--context-parallel-size ", run.ranks.parallel.context_parallel_size,
         ": not with ",
         rules.of_texts() ? concat("--importance-sampling-level ", level) : "--loss vespo",
         ", whose ratios are of whole texts");
}

// After those of the batch are complete.
void PolicyOptions::check_steps() const {
  complete_passes();
  if (packing != "none" && run.batch.schedule.changes())
    fail(Exit::usage, "--packing ", packing, ": not with a batch size that changes");
  if (advantages.scale >= RewardScale::batch && advantages.scale <= RewardScale::tokens &&
      run.batch.schedule.changes())
    fail(Exit::usage, "--scale-rewards ", scale(), ": not with a batch size that changes");
  for (const std::int64_t sequences : {run.batch.schedule.at(0), run.batch.largest()}) {
    if (sequences % num_generations != 0)
      fail(Exit::bad_config, "--global-batch-size ", sequences,
           ": no multiple of --num-generations ", num_generations);
    if (const std::int64_t fewer = run.batch.divided(sequences).computed; fewer != sequences)
      fail(Exit::bad_config, "--decrease-batch-size-if-needed: makes ", sequences, " texts ", fewer,
           ", and grpo's steps are of whole groups");
  }
}

void PolicyOptions::complete() {
  check_method();
  FinetuneOptions::complete(true);
  if (run.device() != Device::cpu && model.batch_invariant)
    fail(Exit::bad_config, "--batch-invariant: on the CPU alone; --device cpu");
  check_invariant();
  if (!prompts.empty()) check_together();
  if (!is_planned()) complete_drawing();
  check_steps();
}

void PolicyOptions::complete_for_search() {
  check_method();
  if (model.batch_invariant)
    fail(Exit::bad_config, "--batch-invariant: on the CPU alone, which --plan-search is not of");
  complete_adapters();
  if (!run.batch.global_batch_size) return;  // which the search asks for
  run.batch.complete(seq_length, 1);
  check_steps();
}

}  // namespace mt
