#include "model/layers.h"

#include <algorithm>

#include "model/config/model_config.h"
#include "model/layers/layer_rows.h"
#include "model/stage_range.h"

namespace mt {

static std::vector<BranchKind> decoder_branches(const ModelConfig& c, std::int64_t layer) {
  switch (c.family) {
    case ModelFamily::gpt:
    case ModelFamily::gemma:
    case ModelFamily::bert:
      return {BranchKind::attention, BranchKind::mlp};
    case ModelFamily::mixtral:
      return {BranchKind::attention, BranchKind::experts};
    case ModelFamily::t5:
      return {BranchKind::attention, BranchKind::cross_attention, BranchKind::mlp};
    case ModelFamily::mamba:
      break;
  }
  const char letter = c.hybrid_pattern[static_cast<std::size_t>(layer)];
  return {letter == 'M'   ? BranchKind::mamba
          : letter == '*' ? BranchKind::attention
                          : BranchKind::mlp};
}

std::vector<LayerPlan> layers_of(const ModelConfig& c) {
  std::vector<LayerPlan> layers;
  const std::int64_t encoders = c.family == ModelFamily::t5 ? c.encoder_num_layers : 0;
  for (std::int64_t i = 0; i < encoders; ++i)
    layers.push_back({"encoder", i, {BranchKind::attention, BranchKind::mlp}});
  const char* const stack = c.family == ModelFamily::bert ? "encoder" : "decoder";
  const bool stacked = c.family != ModelFamily::mamba;  // no two of whose layers need be alike
  for (std::int64_t i = 0; i < c.num_layers; ++i)
    layers.push_back({stack, i, decoder_branches(c, i), stacked});
  return layers;
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

std::optional<Branch> make_branch(const LayerRows& layer, BranchKind kind, ConstTensor inv_freq) {
  switch (kind) {
    case BranchKind::attention:
      return make_attention(layer, inv_freq);
    case BranchKind::mlp:
      return make_mlp(layer);
    case BranchKind::cross_attention:
      declare_cross_attention(layer);
      break;
    case BranchKind::mamba:
      declare_mamba(layer);
      break;
    case BranchKind::experts:
      declare_experts(layer);
      break;
  }
  return {};
}

Stack make_stack(const ModelRows& rows, const StageRange& range, ConstTensor inv_freq) {
  const std::vector<LayerPlan> plans = layers_of(rows.config);
  std::vector<Stack::Layer> layers;
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const LayerPlan& plan = plans[static_cast<std::size_t>(i)];
    Stack::Layer& layer = layers.emplace_back();
    layer.number = plan.number;
    layer.rows = make_unit(rows.table, [&] {
      const LayerRows of_layer{rows, plan.stack, plan.number, rows.config.num_layers, plan.stacked};
      for (const BranchKind kind : plan.branches) {
        std::optional<Branch> branch = make_branch(of_layer, kind, inv_freq);
        if (!branch)
          fail(Exit::internal, "layer ", plan.number, ": no module for its kind of branch");
        layer.branches.push_back(*std::move(branch));
      }
    });
  }
  return {std::move(layers), rows.config.recompute.runs(range.end - range.begin)};
}

ConstTensor make_inv_freq(const ModelConfig& config, Buffer& storage) {
  const std::vector<double> frequencies = config.rotary_frequencies();
  if (frequencies.empty()) return {};
  storage = Buffer(Device::cpu, frequencies.size() * sizeof(double));
  const Tensor table = storage.tensor(DType::f64, {std::ssize(frequencies)});
  std::ranges::copy(frequencies, table.as<double>());
  return table;
}

}  // namespace mt
