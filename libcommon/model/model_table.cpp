#include "model/model_table.h"

#include <functional>

#include "model/families/bert.h"
#include "model/families/biencoder.h"
#include "model/families/dino.h"
#include "model/families/gpt.h"
#include "model/families/llava.h"
#include "model/families/retro.h"
#include "model/families/t5.h"
#include "model/families/vit.h"
#include "model/layers.h"
#include "model/layers/layer_rows.h"
#include "model/stage_range.h"
#include "nn/packed_weight.h"

namespace mt {

static std::unique_ptr<Model> make_family(const ModelConfig& config, const StageRanges& stages,
                                          const TensorPart& part) {
  switch (config.family) {
    case ModelFamily::gpt:
    case ModelFamily::mixtral:
    case ModelFamily::mamba:
      return std::make_unique<Gpt>(config, stages, part);
    case ModelFamily::bert:
      return std::make_unique<Bert>(config, stages, part);
    case ModelFamily::biencoder:
      return std::make_unique<Biencoder>(config, stages, part);
    case ModelFamily::llava:
      return std::make_unique<Llava>(config, stages, part);
    case ModelFamily::retro:
      return std::make_unique<Retro>(config, stages, part);
    case ModelFamily::vit:
      if (config.is_dino()) return std::make_unique<Dino>(config, stages, part);
      return std::make_unique<Vit>(config, stages, part);
    case ModelFamily::t5:
      break;
  }
  return std::make_unique<T5>(config, stages, part);
}

std::unique_ptr<Model> make_model(const ModelConfig& config, const StageRanges& stages,
                                  const TensorPart& part) {
  std::unique_ptr<Model> model = make_family(config, stages, part);
  if (config.has_adapters())
    model->table().freeze([&](const RowPlace& place) {
      return !is_adapter(place) && (place.stack != config.task_head || !config.has_task_head());
    });
  if (!config.quantize_base.empty())
    pack_weights(model->table(), [](const RowPlace&) { return true; });
  return model;
}

ParamTable model_rows(const ModelConfig& c, const TensorPart& part) {
  return std::move(make_model(c, {{.end = std::ssize(layers_of(c))}}, part)->table());
}

// The sum, over the matrices of a stack's layers, or of all, of their elements times what `each`
// says of one.
static double layer_matrices(const ModelConfig& c, std::string_view stack,
                             const std::function<double(const Param&)>& each) {
  double sum = 0;
  const ParamTable table = model_rows(c);
  for (const Param& row : table.rows())
    if (row.place.layer && row.shape.rank() == 2 && (stack.empty() || row.place.stack == stack))
      sum += static_cast<double>(row.shape.numel()) * each(row);
  return sum;
}

double layer_weights(const ModelConfig& config) {
  return layer_matrices(config, {}, [](const Param&) { return 1.0; });
}

// FLOPs of a step for a token and an element of a matrix: what is frozen has no gradient.
static double flops_of_element(bool trainable) { return trainable ? 6 : 4; }

const char* keeps_sequences_whole(const ModelConfig& config) {
  switch (config.family) {
    case ModelFamily::bert:
      return "a BERT's heads are asked of tokens all over a sequence";
    case ModelFamily::biencoder:
      return "a tower's vectors are of the first tokens of whole texts";
    case ModelFamily::vit:
      return "a ViT's patches are cut from whole images";
    case ModelFamily::llava:
      return "a LLaVA's images are whole";
    case ModelFamily::t5:
      return "a T5's decoder attends to all of the encoder's tokens";
    case ModelFamily::retro:
      return "a Retro's chunks attend to neighbours, which are of whole sequences";
    default:
      return nullptr;
  }
}

// Of each token of a LLaVA's images: the layers of its tower that run, and the projector.
static double image_flops(const ModelConfig& c) {
  const ModelConfig tower = tower_config(c);
  double flops = 0;
  const ParamTable table = model_rows(c);
  for (const Param& row : table.rows()) {
    const LlavaPart part = llava_part(row.place);
    const bool is_layer = part == LlavaPart::tower && row.place.layer && !is_idle(c, row.place);
    if (row.shape.rank() == 2 && (is_layer || part == LlavaPart::projector))
      flops += static_cast<double>(row.shape.numel()) * flops_of_element(row.trainable);
  }
  for (const LayerPlan& layer : layers_of(tower))
    for (const BranchKind* kind : layer.branches)
      if (layer.number < c.tower_layers() && kind->flops != nullptr)
        flops += kind->flops(tower, static_cast<double>(c.image_tokens()), 0);
  return flops;
}

double model_flops(const ModelConfig& c, std::int64_t samples, const SampleLengths& lengths) {
  const auto n = static_cast<double>(samples), own = static_cast<double>(lengths.tokens),
             memory = static_cast<double>(lengths.encoder);
  const double chosen = c.num_experts > 0 ? static_cast<double>(c.moe_router_topk) /
                                                static_cast<double>(c.num_experts)
                                          : 1,
               head = static_cast<double>(c.hidden_size * c.padded_vocab_size) *
                      flops_of_element(!c.has_adapters());
  const std::vector<LayerPlan> layers = layers_of(c);
  const auto of_token = [&](std::string_view stack, double length) {
    double flops = layer_matrices(c, stack, [&](const Param& row) {
      return flops_of_element(row.trainable) * (row.experts > 0 ? chosen : 1);
    });
    for (const LayerPlan& layer : layers)
      for (const BranchKind* kind : layer.branches)
        if (layer.stack == stack && kind->flops != nullptr) flops += kind->flops(c, length, memory);
    return flops;
  };
  const std::string_view first = layers.front().stack, last = layers.back().stack;
  // Each further token has layers of its own, and the head.
  double further = 0;
  if (c.mtp_num_layers > 0) {
    further = of_token(kFurtherStack, own);
    for (const LayerPlan& layer : further_layers_of(c))
      for (const BranchKind* kind : layer.branches)
        if (kind->flops != nullptr)
          further += static_cast<double>(c.mtp_num_layers) * kind->flops(c, own, memory);
    further += static_cast<double>(c.mtp_num_layers) * head;
  }
  const bool has_towers = c.family == ModelFamily::biencoder,
             has_words_head = !c.has_task_head() && !has_towers;
  const double flops = n * own * (of_token(last, own) + further + (has_words_head ? head : 0));
  if (c.family == ModelFamily::llava) return flops + n * memory * image_flops(c);
  return first == last && !has_towers ? flops : flops + n * memory * of_token(first, memory);
}

}  // namespace mt
