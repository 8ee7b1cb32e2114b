#include "post/preferences/preference_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "base/command.h"
#include "post/data/packing.h"

namespace mt {
namespace {

struct Named {
  const char* name;
  Preference kind;
};
constexpr auto kLosses =
    std::to_array<Named>({{"dpo", Preference::sigmoid},
                          {"sigmoid", Preference::sigmoid},
                          {"hinge", Preference::hinge},
                          {"ipo", Preference::ipo},
                          {"robust", Preference::robust},
                          {"exo_pair", Preference::exo_pair},
                          {"nca_pair", Preference::nca_pair},
                          {"bco_pair", Preference::bco_pair},
                          {"sppo_hard", Preference::sppo_hard},
                          {"apo_zero", Preference::apo_zero},
                          {"apo_down", Preference::apo_down},
                          {"sigmoid_norm", Preference::sigmoid_norm},
                          {"discopop", Preference::discopop},
                          {"sft", Preference::sft},
                          {"simpo", Preference::simpo},
                          {"orpo", Preference::orpo},
                          {"kto", Preference::kto},
                          {"apo_zero_unpaired", Preference::apo_zero_unpaired}});
constexpr std::array kDivergences = {"reverse_kl", "forward_kl", "js_divergence",
                                     "alpha_divergence"};

// One NAME or NAME=WEIGHT.
PreferenceRules::Weighted loss_of(std::string_view text) {
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string_view name = text.substr(0, equals);
  const auto found = std::ranges::find(kLosses, name, &Named::name);
  if (found == kLosses.end()) {
    std::string names;
    for (const Named& one : kLosses) names += concat(names.empty() ? "" : ", ", one.name);
    fail(Exit::usage, "--loss ", name, ": expected one of ", names);
  }
  PreferenceRules::Weighted loss{.kind = found->kind};
  if (equals == text.size()) return loss;
  const std::string_view weight = text.substr(equals + 1);
  const auto [end, error] =
      std::from_chars(weight.data(), weight.data() + weight.size(), loss.weight);
  if (error != std::errc() || end != weight.data() + weight.size() || !(loss.weight > 0) ||
      !std::isfinite(loss.weight))
    fail(Exit::usage, "--loss ", text, ": expected a weight greater than 0");
  return loss;
}

bool has_no_reference(Preference kind) {
  return kind == Preference::sft || kind == Preference::simpo || kind == Preference::orpo ||
         kind == Preference::bradley_terry;
}

}  // namespace

PreferenceOptions::PreferenceOptions(bool of_rewards) : rewards(of_rewards) {
  without_dropout = true;
  examples.judged = Judged::pairs;
  if (!rewards) run.schedule.lr = 1e-6;
  lr_of_adapters = "1e-5";
}

void PreferenceOptions::add_losses_to(CommandLine& cl) {
  cl.option("--loss", &loss, "NAME[=WEIGHT],...",
            "what becomes less: dpo, hinge, ipo, robust, exo_pair, nca_pair, bco_pair, sppo_hard, "
            "apo_zero, apo_down, sigmoid_norm, discopop, simpo, orpo, sft, or of single texts kto "
            "or apo_zero_unpaired; several are added up");
  cl.option("--beta", &beta, "F",
            "how far the model may go from the one that it was, as factor of rewards; of orpo, "
            "what its odds weigh; default: 0.1, of simpo 2",
            greater_than(0));
  cl.option("--simpo-gamma", &rules.gamma, "F", "of simpo: by how much rewards are to differ",
            at_least(0));
  cl.option("--preference-smoothing", &rules.smoothing, "F",
            "of robust and exo_pair: the share of pairs that may be the wrong way round",
            between(0, 0.49));
  cl.option("--discopop-tau", &rules.tau, "F", "of discopop: its temperature", greater_than(0));
  cl.option("--f-divergence", &divergence, "KIND",
            "how far from the model that it was is measured, of dpo, hinge, ipo, robust, exo_pair, "
            "discopop and sigmoid_norm",
            one_of({kDivergences.begin(), kDivergences.end()}));
  cl.option("--f-alpha", &rules.alpha, "F", "of alpha_divergence", greater_than(0));
  cl.option("--desirable-weight", &rules.desirable, "F", "of single texts that are wanted",
            at_least(0));
  cl.option("--undesirable-weight", &rules.undesirable, "F", "of single texts that are not wanted",
            at_least(0));
}

void PreferenceOptions::add_to(CommandLine& cl) {
  cl.section("Data");
  examples.add_chat_to(cl);
  std::vector<std::string> packings = packing_names();
  std::erase(packings, "wrapped");
  std::erase(packings, "line");
  cl.option("--packing", &packing, "HOW",
            "which pairs share a sample; none: each has one of its own", one_of(packings));
  cl.option("--overlong", &overlong, "WHAT",
            "a pair of more tokens than a sample has: drop it, or cut each text to its half",
            one_of({"drop", "cut"}));
  data.add_to(cl);
  cl.section("Objective");
  if (rewards)
    cl.option("--center-rewards-coefficient", &rules.center, "F",
              "what the square of the sum of a pair's rewards weighs, so that their mean stays 0",
              at_least(0));
  else
    add_losses_to(cl);
  offers_adapters = true;
  add_run_to(cl);
}

void PreferenceOptions::take_losses() {
  if (rewards) {
    rules.losses[0].kind = Preference::bradley_terry;
    return;
  }
  rules.count = 0;
  for (std::size_t begin = 0; begin <= loss.size();) {
    const std::size_t end = std::min(loss.find(',', begin), loss.size());
    if (rules.count == kMostPreferences)
      fail(Exit::usage, "--loss ", loss, ": expected at most ", kMostPreferences);
    rules.losses[rules.count++] = loss_of(std::string_view(loss).substr(begin, end - begin));
    begin = end + 1;
  }
  const auto losses = std::span(rules.losses).first(static_cast<std::size_t>(rules.count));
  const auto has = [&](Preference kind) {
    return std::ranges::count(losses, kind, &PreferenceRules::Weighted::kind) > 0;
  };
  const bool single = rules.has_single_texts();
  if (single && rules.count > 1)
    fail(Exit::usage, "--loss ", loss, ": a loss of single texts stands alone");
  for (const PreferenceRules::Weighted& one : losses)
    if (!single && one.kind >= Preference::kto)
      fail(Exit::usage, "--loss ", loss, ": a loss of single texts stands alone");
  if (has(Preference::exo_pair) && rules.smoothing == 0)
    fail(Exit::usage, "--preference-smoothing: required with --loss exo_pair, 0.001 say");
  if (has(Preference::kto) && run.batch.micro_batch_size < 2 && !plan.search)
    fail(Exit::usage,
         "--micro-batch-size: --loss kto compares texts of a micro-batch, expected at least 2");
  rules.beta = beta.value_or(has(Preference::simpo) ? 2 : 0.1);
  rules.divergence =
      static_cast<Divergence>(std::ranges::find(kDivergences, divergence) - kDivergences.begin());
  examples.judged = single ? Judged::single : Judged::pairs;
}

void PreferenceOptions::check_unused(const CommandLine& cl) const {
  struct Use {
    const char* option;
    std::vector<Preference> kinds;
  };
  using enum Preference;
  const Use uses[] = {
      {"--simpo-gamma", {simpo}},
      {"--preference-smoothing", {robust, exo_pair}},
      {"--discopop-tau", {discopop}},
      {"--f-divergence", {sigmoid, hinge, ipo, robust, exo_pair, discopop, sigmoid_norm}},
      {"--desirable-weight", {kto, apo_zero_unpaired}},
      {"--undesirable-weight", {kto, apo_zero_unpaired}}};
  const auto losses = std::span(rules.losses).first(static_cast<std::size_t>(rules.count));
  const auto refuse_unless_any = [&](const char* option, const auto& reads_it) {
    if (cl.given(option) &&
        std::ranges::none_of(losses, reads_it, &PreferenceRules::Weighted::kind))
      fail(Exit::usage, option, ": has no effect with --loss ", loss);
  };
  for (const Use& use : uses)
    refuse_unless_any(use.option,
                      [&](Preference kind) { return std::ranges::count(use.kinds, kind) > 0; });
  refuse_unless_any("--beta", [](Preference kind) { return kind != sft; });
  if (cl.given("--f-alpha") && rules.divergence != Divergence::alpha_divergence)
    fail(Exit::usage, "--f-alpha: has no effect with --f-divergence ", divergence);
}

bool PreferenceOptions::needs_reference() const {
  return std::ranges::any_of(
      std::span(rules.losses).first(static_cast<std::size_t>(rules.count)),
      [](const PreferenceRules::Weighted& one) { return !has_no_reference(one.kind); });
}

void PreferenceOptions::complete() {
  const char* const verb = rewards ? "reward" : "dpo";
  if (model_type != "gpt")
    fail(Exit::bad_config, "--model-type ", model_type, ": ", verb, " trains models of type gpt");
  encoder.check_unused("--model-type gpt");
  if (run.ranks.parallel.context_parallel_size > 1)
    fail(Exit::bad_config, "--context-parallel-size ", run.ranks.parallel.context_parallel_size,
         ": not with ", verb, ", whose losses are of whole texts");
  if (model.label_smoothing > 0)
    fail(Exit::bad_config, "--label-smoothing ", model.label_smoothing, ": not with ", verb,
         ", whose losses are of log-probabilities");
  if (rewards) {
    model.task_head = kScoreHead;
    model.num_labels = 1;
  }
  FinetuneOptions::complete(true);
}

}  // namespace mt
