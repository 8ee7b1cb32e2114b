// What a model computes, setting by setting, so that a run can be held to its checkpoint's.
#include <algorithm>
#include <variant>

#include "base/error.h"
#include "model/config/settings.h"
#include "nn/mlp.h"

namespace mt {
namespace {

using Value = std::variant<std::int64_t, double, std::string>;
struct Fact {
  const char* name;
  Value value;
  bool of_reach = false;
};
using Facts = std::vector<Fact>;

std::string on_off(bool value) { return value ? "on" : "off"; }

struct Describing {
  const ModelConfig& c;
  Facts& facts;
  template <class T>
  void operator()(const T& value, const Setting& s) const {
    if (s.effect == Effect::part) return add_derived(s.flag);
    const bool of_reach = s.effect == Effect::reach;
    if (s.effect != Effect::model && !of_reach) return;
    if constexpr (std::is_same_v<T, bool>)
      facts.push_back({s.flag, on_off(value != (s.metavar == kOff)), of_reach});
    else if constexpr (std::is_constructible_v<Value, T>)
      facts.push_back({s.flag, value, of_reach});
    else
      fail(Exit::internal, s.flag, ": has no value to compare");
  }
  void add_derived(const char* name) const {
    const std::string_view flag = name;
    if (flag == "--ffn-hidden-size")
      facts.push_back({name, c.has_mlps() || c.num_experts == 0 ? c.ffn() : c.expert_ffn()});
    if (flag == "--moe-ffn-hidden-size") facts.push_back({name, c.expert_ffn()});
    if (flag == "--num-query-groups") facts.push_back({name, c.kv_heads()});
    if (flag == "--kv-channels") facts.push_back({name, c.head_dim()});
    if (flag == "--q-lora-rank") facts.push_back({name, c.q_lora_rank.value_or(0)});
    if (flag == "--original-max-position-embeddings" && c.multi_latent_attention)
      facts.push_back(
          {name, c.original_max_position_embeddings.value_or(c.max_position_embeddings), true});
    if (flag == "--softmax-scale") facts.push_back({name, c.score_scale()});
    if (flag == "--rotary-seq-len-interpolation-factor")
      facts.push_back({name, c.rotary_interpolation.value_or(1), true});
  }
};

Facts facts_of(const ModelConfig& c) {
  Facts facts;
  visit_settings(c, Describing{c, facts});
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer)
    facts.push_back({"the window of a layer (--window-size)", c.window(layer), true});
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer)
    facts.push_back({"rotary positions of a layer (--no-rope-freq)", on_off(c.turns(layer))});
  for (const bool linear : c.linear_layers(c.num_layers))
    facts.push_back({"the rule of a layer (--linear-attention-freq)", on_off(linear)});
  facts.push_back({"a bias in the QKV projection", on_off(c.has_qkv_bias())});
  facts.push_back({"GeLU in its tanh form", on_off(c.activation() == Activation::gelu_tanh)});
  if (c.has_positions() && c.family != ModelFamily::vit)  // whose follow from the image
    facts.push_back({"--max-position-embeddings", c.max_position_embeddings});
  if (c.is_dino()) {  // behind what all have
    facts.push_back({"--dino-head-hidden-size", c.dino_head_hidden_size});
    facts.push_back({"--dino-bottleneck-size", c.dino_bottleneck_size});
    facts.push_back({"--dino-out-dim", c.dino_out_dim});
  }
  return facts;
}

}  // namespace

const char* differing_setting(const ModelConfig& a, const ModelConfig& b) {
  const Facts ours = facts_of(a), theirs = facts_of(b);
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i)
    if (ours[i].value != theirs[i].value) return ours[i].name;
  return nullptr;
}

std::string check_same_model(const ModelConfig& run, const ModelConfig& stored,
                             const std::string& where, bool begins_anew) {
  if (run.family != stored.family)
    fail(Exit::bad_config, where, ": is a model of another family than this run trains");
  const Facts ours = facts_of(run), theirs = facts_of(stored);
  std::string changed;
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    if (ours[i].value == theirs[i].value) continue;
    const auto text = [](const Value& value) {
      return std::visit([](const auto& v) { return concat(v); }, value);
    };
    const std::string difference = concat(ours[i].name, " is ", text(theirs[i].value),
                                          " in the checkpoint and ", text(ours[i].value), " here");
    if (!begins_anew || !ours[i].of_reach)
      fail(Exit::bad_config, where, ": ", difference,
           "; --use-checkpoint-args takes the checkpoint's");
    if (changed.find(ours[i].name) == changed.npos)
      changed += concat(changed.empty() ? "" : "; ", difference);
  }
  return changed;
}

}  // namespace mt
