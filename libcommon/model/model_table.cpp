#include "model/model_table.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "model/families/bert.h"
#include "model/families/biencoder.h"
#include "model/families/dino.h"
#include "model/families/gpt.h"
#include "model/families/llava.h"
#include "model/families/retro.h"
#include "model/families/t5.h"
#include "model/families/vit.h"
#include "model/image_tiles.h"
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
      return !is_adapter(place) && !config.is_new_head(place.stack);
    });
  if (!config.quantize_base.empty())
    pack_weights(model->table(), [](const RowPlace&) { return true; });
  return model;
}

ParamTable model_rows(const ModelConfig& c, const TensorPart& part) {
  return std::move(make_model(c, {{.end = std::ssize(layers_of(c))}}, part)->table());
}

double layer_weights(const ModelConfig& config) {
  double sum = 0;
  const ParamTable table = model_rows(config);
  for (const Param& row : table.rows())
    if (row.place.layer && row.shape.rank() == 2) sum += static_cast<double>(row.shape.numel());
  return sum;
}

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

namespace {

// StepFlops: what layers of a model take of a training step, for a token of theirs.  A matrix takes
// two FLOPs for each element; two more for the gradient of what it reads, where a row in front of
// it learns; and two for its own, where it learns itself.
class StepFlops {
 public:
  StepFlops(const ModelConfig& config, const ParamTable& table) : config_(config), table_(table) {
    std::vector<const Param*> order;
    for (const Param& row : table.rows()) order.push_back(&row);
    if (config.family == ModelFamily::llava)  // what reads images runs first
      std::ranges::stable_partition(
          order, [](const Param* row) { return llava_part(row->place) != LlavaPart::language; });
    of_element_.resize(order.size());
    bool learns = false;  // one of the rows so far
    const Param* words = nullptr;
    for (const Param* const row : order) {
      of_element_[row->index] = of_element(learns, row->trainable);
      if (row->is_vocabulary() && row->shape.rank() == 2) words = row;
      learns = learns || row->trainable;
      if (row->place.layer) layers_learn_[{row->place.stack, *row->place.layer}] = learns;
    }
    // Words that are embeddings, too, are the first row, but what has the head reads all layers.
    if (words != nullptr)
      of_word_ = config.untie_embeddings_and_output_weights ? of_element_[words->index]
                                                            : of_element(learns, words->trainable);
  }

  double of_matrix(const Param& row) const {
    return static_cast<double>(row.shape.numel()) * of_element_[row.index];
  }

  // What a layer's branches take beside their matrices, which is gradients to two thirds.
  double beside_matrices(const std::vector<const BranchKind*>& branches, std::string_view stack,
                         std::int64_t layer, const ModelConfig& c, double length,
                         double memory) const {
    double flops = 0;
    for (const BranchKind* const kind : branches)
      if (kind->flops != nullptr) flops += kind->flops(c, length, memory);
    return flops / (layers_learn_.at({stack, layer}) ? 1 : 3);
  }

  // The layers of a stack that `layers` has, and all matrices of it.
  double of_stack(std::string_view stack, const ModelConfig& c,
                  const std::vector<LayerPlan>& layers, double length, double memory) const {
    double flops = 0;
    std::map<std::int64_t, const LayerPlan*> numbered;
    for (const LayerPlan& layer : layers) {
      if (layer.stack != stack) continue;
      numbered[layer.number] = &layer;
      flops += beside_matrices(layer.branches, stack, layer.number, c, length, memory);
    }
    for (const Param& row : table_.rows()) {
      if (!row.place.layer || row.shape.rank() != 2 || row.place.stack != stack) continue;
      double reads = row.experts > 0 ? chosen() : 1;
      if (const auto of = numbered.find(*row.place.layer); of != numbered.end())
        for (const BranchKind* const kind : of->second->branches)
          if (kind->reads != nullptr) reads *= kind->reads(c, row.place, length, memory);
      flops += of_matrix(row) * reads;
    }
    return flops;
  }

  // The layers of a LLaVA's tower that run, for a token of an image, and the projector.
  double of_image() const {
    const ModelConfig tower = tower_config(config_);
    const double projected =
        static_cast<double>(rows_of_tile(config_)) / static_cast<double>(config_.image_tokens());
    double flops = 0;
    for (const Param& row : table_.rows()) {
      const LlavaPart part = llava_part(row.place);
      const bool is_layer =
          part == LlavaPart::tower && row.place.layer && !is_idle(config_, row.place);
      if (row.shape.rank() != 2) continue;
      if (is_layer) flops += of_matrix(row);
      if (part == LlavaPart::projector) flops += of_matrix(row) * projected;
    }
    for (const LayerPlan& layer : layers_of(tower))
      if (layer.number < config_.tower_layers())
        flops += beside_matrices(layer.branches, kTowerLayers, layer.number, tower,
                                 static_cast<double>(config_.image_tokens()), 0);
    return flops;
  }

  // The product with the words, of which the last row that has one for each token is.
  double of_head() const {
    return static_cast<double>(config_.hidden_size * config_.padded_vocab_size) * of_word_;
  }

 private:
  // learns: whether a row in front does.
  static double of_element(bool learns, bool trainable) {
    return 2 + (learns ? 2 : 0) + (trainable ? 2 : 0);
  }
  double chosen() const {
    return static_cast<double>(config_.moe_router_topk) / static_cast<double>(config_.num_experts);
  }

  const ModelConfig& config_;
  const ParamTable& table_;
  std::vector<double> of_element_;  // by row
  double of_word_ = 0;              // of_element() of what the head reads
  // Whether a row of a stack's layer learns, or one in front of it.
  std::map<std::pair<std::string_view, std::int64_t>, bool> layers_learn_;
};

}  // namespace

double model_flops(const ModelConfig& c, const ParamTable& rows, std::int64_t samples,
                   const SampleLengths& lengths) {
  const StepFlops step(c, rows);
  const auto n = static_cast<double>(samples), own = static_cast<double>(lengths.tokens),
             memory = static_cast<double>(lengths.encoder);
  const double head = step.of_head();
  const std::vector<LayerPlan> layers = layers_of(c);
  const auto of_token = [&](std::string_view stack, double length) {
    return step.of_stack(stack, c, layers, length, memory);
  };
  const std::string_view first = layers.front().stack, last = layers.back().stack;
  // Each further token has layers of its own, and the head.
  double further = 0;
  if (c.mtp_num_layers > 0) {
    further = of_token(kFurtherStack, own);
    for (std::int64_t token = 0; token < c.mtp_num_layers; ++token)
      for (const LayerPlan& layer : further_layers_of(c))
        further += step.beside_matrices(layer.branches, kFurtherStack, token, c, own, memory);
    further += static_cast<double>(c.mtp_num_layers) * head;
  }
  const bool has_towers = c.family == ModelFamily::biencoder,
             has_words_head = !c.has_task_head() && !has_towers;
  const double flops = n * own * (of_token(last, own) + further + (has_words_head ? head : 0));
  if (c.family == ModelFamily::llava) return flops + n * memory * step.of_image();
  return first == last && !has_towers ? flops : flops + n * memory * of_token(first, memory);
}

double model_flops(const ModelConfig& c, std::int64_t samples, const SampleLengths& lengths) {
  return model_flops(c, model_rows(c), samples, lengths);
}

}  // namespace mt
