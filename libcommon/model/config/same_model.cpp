// What a model computes, setting by setting, so that a run can be held to its checkpoint's.
#include <utility>
#include <variant>

#include "base/error.h"
#include "model/config/settings.h"
#include "nn/mlp.h"

namespace mt {
namespace {

using Value = std::variant<std::int64_t, double, std::string>;
using Facts = std::vector<std::pair<const char*, Value>>;

std::string on_off(bool value) { return value ? "on" : "off"; }

struct Describing {
  const ModelConfig& c;
  Facts& facts;
  template <class T>
  void operator()(const T& value, const Setting& s) const {
    if (s.effect == Effect::part) return add_derived(s.flag);
    if (s.effect != Effect::model) return;
    if constexpr (std::is_same_v<T, bool>)
      facts.emplace_back(s.flag, on_off(value != (s.metavar == kOff)));
    else if constexpr (std::is_constructible_v<Value, T>)
      facts.emplace_back(s.flag, value);
    else
      fail(Exit::internal, s.flag, ": has no value to compare");
  }
  void add_derived(const char* name) const {
    const std::string_view flag = name;
    if (flag == "--ffn-hidden-size") facts.emplace_back(name, c.ffn());
    if (flag == "--num-query-groups") facts.emplace_back(name, c.kv_heads());
    if (flag == "--kv-channels") facts.emplace_back(name, c.head_dim());
    if (flag == "--rotary-seq-len-interpolation-factor")
      facts.emplace_back(name, c.rotary_interpolation.value_or(1));
  }
};

Facts facts_of(const ModelConfig& c) {
  Facts facts;
  visit_settings(c, Describing{c, facts});
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer)
    facts.emplace_back("the window of a layer (--window-size)", c.window(layer));
  facts.emplace_back("a bias in the QKV projection", on_off(c.has_qkv_bias()));
  facts.emplace_back("GeLU in its tanh form", on_off(c.activation() == Activation::gelu_tanh));
  if (c.has_positions()) facts.emplace_back("--max-position-embeddings", c.max_position_embeddings);
  return facts;
}

}  // namespace

void check_same_model(const ModelConfig& run, const ModelConfig& stored, const std::string& where) {
  const Facts ours = facts_of(run), theirs = facts_of(stored);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (ours[i].second == theirs.at(i).second) continue;
    const auto text = [](const Value& value) {
      return std::visit([](const auto& v) { return concat(v); }, value);
    };
    fail(Exit::bad_config, where, ": ", ours[i].first, " is ", text(theirs[i].second),
         " in the checkpoint and ", text(ours[i].second), " here");
  }
}

}  // namespace mt
