#include "model/config/expert_config.h"

#include <algorithm>
#include <variant>

#include "base/error.h"
#include "base/python_list.h"
#include "model/config/ranges.h"

namespace mt {

// --- Which layers have experts ------------------------------------------------------------------

std::vector<bool> ExpertConfig::experts_of_layers(std::int64_t layers) const {
  std::vector<bool> all(static_cast<std::size_t>(layers), true);
  const PythonList::Value value = PythonList("--moe-layer-freq", moe_layer_freq).value();
  if (const auto* const every = std::get_if<0>(&value)) {
    if (*every < 1)
      fail(Exit::bad_config, "--moe-layer-freq ", moe_layer_freq, ": expected at least 1");
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<std::int64_t>(i) % *every == 0;
    return all;
  }
  const PythonList::List& list = std::get<1>(value);
  if (std::ssize(list) != layers)
    fail(Exit::bad_config, "--moe-layer-freq ", moe_layer_freq, ": ", list.size(), " numbers for ",
         layers, " layers");
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (list[i] > 1)
      fail(Exit::bad_config, "--moe-layer-freq ", moe_layer_freq, ": has ", list[i],
           " for a layer, expected 0 or 1");
    all[i] = list[i] == 1;
  }
  return all;
}

bool ExpertConfig::has_dense_layers(std::int64_t layers) const {
  return std::ranges::count(experts_of_layers(layers), false) > 0;
}

std::string ExpertConfig::shortest_freq(std::int64_t layers) const {
  const PythonList::Value value = PythonList("--moe-layer-freq", moe_layer_freq).value();
  if (const auto* const every = std::get_if<0>(&value)) return std::to_string(*every);
  std::string text = "[";
  for (const bool has : experts_of_layers(layers)) text += has ? "1," : "0,";
  text.back() = ']';
  return text;
}

// --- Checks -------------------------------------------------------------------------------------

bool ExpertConfig::balances_by(std::string_view type) const {
  return std::ranges::count(moe_router_load_balancing_type, type) > 0;
}

double ExpertConfig::aux_loss_coeff(std::string_view type) const {
  const auto found = std::ranges::find(moe_router_load_balancing_type, type);
  if (found == moe_router_load_balancing_type.end()) return 0;
  return moe_aux_loss_coeff[static_cast<std::size_t>(found -
                                                     moe_router_load_balancing_type.begin())];
}

// Each loss has a weight, and what is none stands alone.
void ExpertConfig::check_balance() const {
  const std::vector<std::string>& types = moe_router_load_balancing_type;
  constexpr const char *kTypes = "--moe-router-load-balancing-type",
                       *kWeights = "--moe-aux-loss-coeff";
  if (types.empty() || types.size() != moe_aux_loss_coeff.size())
    fail(Exit::bad_config, kWeights, ": ", moe_aux_loss_coeff.size(), " for ", types.size(),
         " losses of ", kTypes);
  for (const std::string& type : types) {
    if (std::ranges::count(types, type) > 1)
      fail(Exit::bad_config, kTypes, ": has ", type, " twice");
    if ((type == "sinkhorn" || type == "quantile_balancing" || type == "none") && types.size() > 1)
      fail(Exit::bad_config, kTypes, " ", type, ": not beside others");
  }
  if (const double weight = aux_loss_coeff("none"); weight != 0)
    fail(Exit::bad_config, kWeights, " ", weight, ": not with ", kTypes, " none");
}

// It has a weight of its own for what it chooses, and needs no other help to be even.
void ExpertConfig::check_sinkhorn() const {
  constexpr const char* kWith = ": not with --moe-router-load-balancing-type sinkhorn";
  const auto refuse_if = [&](bool wrong, const char* flag) {
    if (wrong) fail(Exit::bad_config, flag, kWith);
  };
  refuse_if(aux_loss_coeff("sinkhorn") != 0, "--moe-aux-loss-coeff");
  refuse_if(moe_router_score_function != "softmax", "--moe-router-score-function");
  refuse_if(moe_router_pre_softmax, "--moe-router-pre-softmax");
  refuse_if(moe_router_num_groups != 0 || moe_router_group_topk != 0, "--moe-router-num-groups");
  refuse_if(moe_router_topk_scaling_factor != 0, "--moe-router-topk-scaling-factor");
  refuse_if(moe_router_enable_expert_bias, "--moe-router-enable-expert-bias");
  refuse_if(moe_expert_capacity_factor != 0, "--moe-expert-capacity-factor");
}

// Biases by which it chooses take all that makes it even.
void ExpertConfig::check_quantiles() const {
  constexpr const char* kWith = ": not with --moe-router-load-balancing-type quantile_balancing";
  const auto refuse_if = [&](bool wrong, const char* flag) {
    if (wrong) fail(Exit::bad_config, flag, kWith);
  };
  refuse_if(aux_loss_coeff("quantile_balancing") != 0, "--moe-aux-loss-coeff");
  refuse_if(moe_router_num_groups != 0 || moe_router_group_topk != 0, "--moe-router-num-groups");
  refuse_if(moe_router_enable_expert_bias, "--moe-router-enable-expert-bias");
  refuse_if(moe_expert_capacity_factor != 0, "--moe-expert-capacity-factor");
  if (moe_router_topk == num_experts)
    fail(Exit::bad_config, "--moe-router-topk ", moe_router_topk, ": with ", num_experts,
         " experts", kWith);
}

void ExpertConfig::check_router() const {
  const bool by_own_scores = moe_router_score_function != "softmax";
  check_balance();
  if (moe_router_quantile_balancing_ema != 0 && !has_quantiles())
    fail(Exit::bad_config,
         "--moe-router-quantile-balancing-ema: needs --moe-router-load-balancing-type "
         "quantile_balancing");
  if (has_sinkhorn()) return check_sinkhorn();
  if (has_quantiles()) check_quantiles();
  if (moe_router_topk == 1 && !by_own_scores && !moe_router_pre_softmax)
    fail(Exit::bad_config,
         "--moe-router-topk 1: Please use --moe-router-pre-softmax when topk is 1.");
  if (moe_router_enable_expert_bias && !by_own_scores)
    fail(Exit::bad_config,
         "--moe-router-enable-expert-bias: needs --moe-router-score-function sigmoid or "
         "sqrtsoftplus");
  const std::int64_t groups = moe_router_num_groups, kept = moe_router_group_topk;
  if ((groups == 0) != (kept == 0))
    fail(Exit::bad_config, "--moe-router-num-groups, --moe-router-group-topk: one needs the other");
  if (groups == 0 && moe_router_group_score != "topsum")
    fail(Exit::bad_config, "--moe-router-group-score ", moe_router_group_score,
         ": needs --moe-router-num-groups");
  if (groups == 0) return;
  check_range("--moe-router-num-groups", groups, between(0, 512));
  if (num_experts % groups != 0)
    fail(Exit::bad_config, "--moe-router-num-groups ", groups, ": does not divide ", num_experts,
         " experts");
  if (kept > groups || moe_router_topk / kept == 0 ||
      moe_router_topk > kept * (num_experts / groups))
    fail(Exit::bad_config, "--moe-router-group-topk ", kept, ": of ", groups, " groups, for ",
         moe_router_topk, " experts of a token");
}

void ExpertConfig::check(std::int64_t layers) const {
  if (std::ranges::count(experts_of_layers(layers), true) == 0)
    fail(Exit::bad_config, "--moe-layer-freq ", moe_layer_freq, ": no layer has experts");
  check_range("--moe-router-topk", moe_router_topk, between(1, static_cast<double>(num_experts)));
  check_range("--num-experts of all layers:", num_experts * layers, between(1, 1 << 16));
  if (moe_shared_expert_gate && moe_shared_expert_intermediate_size == 0)
    fail(Exit::bad_config, "--moe-shared-expert-gate: needs --moe-shared-expert-intermediate-size");
  if (moe_token_drop_policy != "probs" && moe_expert_capacity_factor == 0)
    fail(Exit::bad_config, "--moe-token-drop-policy ", moe_token_drop_policy,
         ": needs --moe-expert-capacity-factor");
  check_router();
}

}  // namespace mt
