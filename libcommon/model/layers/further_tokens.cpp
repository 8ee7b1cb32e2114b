// The rows of layers that predict further tokens: enorm, hnorm, eh_proj and final_layernorm beside
// transformer_layer, which has those of the model's last layer, or a hybrid's mtp_model_layer,
// which has layers of its own.
#include "model/layers.h"
#include "model/layers/layer_rows.h"

namespace mt {
namespace {

constexpr std::string_view kStack = kFurtherStack;

Stack::Layer make_layer(const ModelRows& rows, const Rotary& rotary, std::int64_t number,
                        const LayerPlan& plan) {
  const ModelConfig& c = rows.config;
  // Its random numbers and its routers' losses are of a layer behind the model's.
  const std::int64_t behind = c.num_layers + number * c.further_layers() + plan.number;
  LayerRows of_layer{rows, kStack, behind, c.num_layers, false, rotary};
  of_layer.inside = {.layer = number, .module = "", .inner = "transformer_layer"};
  if (c.family == ModelFamily::mamba)
    of_layer.inside = {
        .layer = number, .module = "", .inner = "mtp_model_layer", .inner_layer = plan.number};
  Stack::Layer layer{.number = of_layer.layer, .branches = {}, .rows = {}};
  layer.rows = make_unit(rows.table, [&] {
    for (const BranchKind* kind : plan.branches) layer.branches.push_back(kind->make(of_layer));
  });
  return layer;
}

Linear make_join(const ModelRows& rows, std::int64_t number) {
  Param weight;
  weight.place = {.stack = kStack, .layer = number, .module = "eh_proj", .param = "weight"};
  weight.shape = {rows.config.hidden_size, 2 * rows.config.hidden_size};
  weight.init = matrix_init(rows.config, weight.shape);
  weight.summed_over = rows.part.sequence_parallel ? SummedOver::tp : SummedOver::none;
  return {rows.table, std::move(weight), false};
}

FurtherTokens::Depth make_depth(const ModelRows& rows, const Rotary& rotary, std::int64_t number) {
  std::optional<FurtherTokens::Depth> depth;
  const RowRange own = make_unit(rows.table, [&] {
    const auto norm = [&](const char* module) {
      return rows.make_norm(
          rows.norm_row({.stack = kStack, .layer = number, .module = module, .param = "weight"}));
    };
    // One after the other: rows stand in the order in which they are made.
    const Norm of_embedding = norm("enorm"), of_hidden = norm("hnorm");
    Linear join = make_join(rows, number);
    const Norm final_norm = norm("final_layernorm");
    depth.emplace(of_embedding, of_hidden, std::move(join), Stack({}, {}), final_norm);
  });
  depth->rows = own;
  depth->first_layer = rows.config.num_layers + number * rows.config.further_layers();
  std::vector<Stack::Layer> layers;
  std::vector<LayerRun> runs;
  for (const LayerPlan& plan : further_layers_of(rows.config)) {
    layers.push_back(make_layer(rows, rotary, number, plan));
    runs.push_back({.begin = runs.size(),
                    .end = runs.size() + 1,
                    .again = rows.config.recompute.granularity == "full"});
  }
  depth->layer = {std::move(layers), std::move(runs)};
  return std::move(*depth);
}

}  // namespace

FurtherTokens make_further_tokens(const ModelRows& rows, const Rotary& rotary,
                                  const Embedding& embedding, const LmHead& head) {
  std::vector<FurtherTokens::Depth> depths;
  for (std::int64_t i = 0; i < rows.config.mtp_num_layers; ++i)
    depths.push_back(make_depth(rows, rotary, i));
  return {std::move(depths), embedding, head};
}

}  // namespace mt
