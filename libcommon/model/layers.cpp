#include "model/layers.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/error.h"
#include "model/config/model_config.h"
#include "model/families/tower.h"
#include "model/layers/layer_rows.h"
#include "model/stage_range.h"
#include "nn/kv_cache.h"

namespace mt {

// The kinds of branches: each is defined in its module's file in model/layers, and named here
// alone.
extern const BranchKind kAttention, kLatentAttention, kCrossAttention, kChunkedCrossAttention,
    kEncodingCrossAttention, kGatedDelta, kMamba, kMlp, kParallelBlock, kExperts;

constexpr std::array kOfPatterns = {&kMamba, &kAttention, &kMlp, &kExperts, &kLatentAttention};

std::string pattern_letters() {
  std::string letters;
  for (const BranchKind* kind : kOfPatterns) letters += kind->letter;
  return letters;
}

static const BranchKind* kind_of(char letter) {
  for (const BranchKind* kind : kOfPatterns)
    if (letter == kind->letter) return kind;
  fail(Exit::internal, "no kind of branch has the letter ", letter);
}

static std::vector<const BranchKind*> decoder_branches(const ModelConfig& c, std::int64_t layer,
                                                       bool has_experts, bool is_linear) {
  const BranchKind* const attention = is_linear                  ? &kGatedDelta
                                      : c.multi_latent_attention ? &kLatentAttention
                                                                 : &kAttention;
  switch (c.family) {
    case ModelFamily::gpt:
      if (c.parallel_block) return {&kParallelBlock};
      [[fallthrough]];
    case ModelFamily::bert:
    case ModelFamily::biencoder:
    case ModelFamily::vit:
    case ModelFamily::llava:
      return {attention, &kMlp};
    case ModelFamily::mixtral:
      return {attention, has_experts ? &kExperts : &kMlp};
    case ModelFamily::t5:
      return {&kAttention, &kCrossAttention, &kMlp};
    case ModelFamily::retro:
      if (!is_retro_layer(layer, c.num_layers)) return {&kAttention, &kMlp};
      return {&kAttention,
              layer == first_retro_layer(c.num_layers) ? &kEncodingCrossAttention
                                                       : &kChunkedCrossAttention,
              &kMlp};
    case ModelFamily::mamba:
      break;
  }
  return {kind_of(c.hybrid_pattern[static_cast<std::size_t>(layer)])};
}

std::vector<LayerPlan> layers_of(const ModelConfig& c) {
  std::vector<LayerPlan> layers;
  if (c.family == ModelFamily::biencoder) {
    const auto add = [&](const TowerNames& tower) {
      for (std::int64_t i = 0; i < c.num_layers; ++i)
        layers.push_back({tower.encoder, i, {&kAttention, &kMlp}});
    };
    add(c.towers() == 1 ? kSharedTower : kQueryTower);
    if (c.towers() == 2) add(kContextTower);
    return layers;
  }
  const std::int64_t encoders = c.family == ModelFamily::t5 ? c.encoder_num_layers : 0;
  for (std::int64_t i = 0; i < encoders; ++i)
    layers.push_back({"encoder", i, {&kAttention, &kMlp}});
  const char* const stack = c.family == ModelFamily::bert    ? "encoder"
                            : c.family == ModelFamily::llava ? "language_model.decoder"
                                                             : "decoder";
  // No two of a hybrid's or a Retro's layers need be alike, nor where some have experts or the
  // gated delta rule.
  const bool stacked = c.family != ModelFamily::mamba && c.family != ModelFamily::retro &&
                       c.moe_layer_freq == "1" && !c.may_have_linear_layers();
  const std::vector<bool> experts = c.experts_of_layers(c.num_layers),
                          linear = c.linear_layers(c.num_layers);
  for (std::int64_t i = 0; i < c.num_layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    layers.push_back({stack, i, decoder_branches(c, i, experts[at], linear[at]), stacked});
  }
  return layers;
}

std::vector<LayerPlan> further_layers_of(const ModelConfig& c) {
  if (c.family != ModelFamily::mamba) {
    LayerPlan layer = layers_of(c).back();
    layer.stack = kFurtherStack;
    layer.number = 0;
    layer.stacked = false;
    return {layer};
  }
  std::vector<LayerPlan> layers;
  for (const char letter : c.mtp_hybrid_pattern)
    layers.push_back({kFurtherStack, std::ssize(layers), {kind_of(letter)}, false});
  return layers;
}

std::vector<CacheShape> cache_of(const ModelConfig& config, const CacheRoom& room) {
  std::vector<CacheShape> shapes;
  const auto add = [&](const LayerPlan& layer) {
    CacheShape& shape = shapes.emplace_back();
    for (const BranchKind* kind : layer.branches)
      if (kind->keep != nullptr) kind->keep(shape, config, room);
  };
  for (const LayerPlan& layer : layers_of(config))
    if (layer.stack.ends_with("decoder")) add(layer);
  for (std::int64_t depth = 0; depth < std::min(room.further, config.mtp_num_layers); ++depth) {
    const std::size_t first = shapes.size();
    for (const LayerPlan& layer : further_layers_of(config)) add(layer);
    shapes[first].before = {room.pages, room.page_tokens, config.hidden_size};
  }
  return shapes;
}

std::vector<StackRun> runs_of(const std::vector<LayerPlan>& layers, const StageRange& range) {
  std::vector<StackRun> runs;
  for (std::int64_t i = range.begin; i < std::min(range.end, std::ssize(layers)); ++i) {
    const LayerPlan& layer = layers[static_cast<std::size_t>(i)];
    if (runs.empty() || runs.back().stack != layer.stack)
      runs.push_back({layer.stack, layer.number, layer.number});
    ++runs.back().end;
  }
  return runs;
}

Stack make_stack(const ModelRows& rows, const StageRange& range, const Rotary& rotary,
                 const std::optional<RelativeBias>& bias) {
  const std::vector<LayerPlan> plans = layers_of(rows.config);
  std::vector<Stack::Layer> layers;
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const LayerPlan& plan = plans[static_cast<std::size_t>(i)];
    Stack::Layer& layer = layers.emplace_back();
    layer.number = plan.number;
    layer.rows = make_unit(rows.table, [&] {
      const std::int64_t of_stack = std::ranges::count(plans, plan.stack, &LayerPlan::stack);
      const LayerRows of_layer{rows, plan.stack, plan.number, of_stack, plan.stacked, rotary, bias};
      for (const BranchKind* kind : plan.branches) layer.branches.push_back(kind->make(of_layer));
    });
  }
  return {std::move(layers), rows.config.recompute.runs(range.end - range.begin)};
}

Rotary make_rotary(const ModelConfig& config, Buffer& storage) {
  std::vector<double> frequencies = config.rotary_frequencies();
  if (frequencies.empty()) return {};
  const std::int64_t pairs = std::ssize(frequencies);
  if (config.rotary_base_window != 0)
    std::ranges::copy(config.window_frequencies(config.head_dim()),
                      std::back_inserter(frequencies));
  storage = Buffer(Device::cpu, frequencies.size() * sizeof(double));
  const Tensor table = storage.tensor(DType::f64, {std::ssize(frequencies)});
  std::ranges::copy(frequencies, table.as<double>());
  const bool latent = config.multi_latent_attention;
  Rotary rotary{.inv_freq = {table.rows(0, pairs)},
                .interleaved = latent || config.rotary_interleaved};
  if (latent) rotary.magnitude = config.latent_magnitude();
  if (config.rotary_base_window != 0) rotary.inv_freq[1] = table.rows(pairs, 2 * pairs);
  if (!latent && config.turns_in_part()) rotary.magnitude = config.rope_attention_factor;
  return rotary;
}

}  // namespace mt
