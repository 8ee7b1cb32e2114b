// The rows of a ViT in front of its layers and behind them, with PyTorch's initial values of linear
// modules: uniform in +-1 / sqrt(inputs).
#include <cmath>

#include "model/layers/layer_rows.h"

namespace mt {
namespace {

Initializer torch_init(std::int64_t inputs) {
  return {Initializer::Kind::uniform, 1 / std::sqrt(3 * static_cast<double>(inputs))};
}

// Each rank computes all of it.
Linear make_whole(const ModelRows& rows, RowPlace place, const Shape& shape,
                  const Initializer& weight, const Initializer& bias) {
  place.param = "weight";
  const Linear linear(rows.table, {.place = std::move(place), .shape = shape, .init = weight},
                      true);
  rows.table.rows().back().init = bias;
  return linear;
}

}  // namespace

// A rank that has some rows of hidden states sees a part of the gradients.
PatchEmbedding make_patch_embedding(const ModelRows& rows) {
  const ModelConfig& c = rows.config;
  const SummedOver summed = rows.part.sequence_parallel ? SummedOver::tp : SummedOver::none;
  const auto row = [&](const char* module, std::string_view param, const Shape& shape,
                       const Initializer& init) {
    return Param{.place = {.stack = "embedding", .module = module, .param = param},
                 .shape = shape,
                 .init = init,
                 .summed_over = summed};
  };
  const Initializer init = torch_init(c.patch_width());
  const Param* classes = nullptr;
  if (c.class_tokens() > 0)
    classes = &rows.table.add(row("class_tokens", "weight", {c.class_tokens(), c.hidden_size},
                                  {Initializer::Kind::zeros}));
  const Linear product(
      rows.table, row("patch_embeddings", "weight", {c.hidden_size, c.patch_width()}, init), false);
  const Param* const bias =
      c.is_clip() || c.is_radio()
          ? nullptr
          : &rows.table.add(row("patch_embeddings", "bias", {c.hidden_size}, init));
  const PatchEmbedding::Rows of_tokens{.classes = classes,
                                       .positions = &declare_positions(rows),
                                       .bias = bias,
                                       .classes_have_positions = !c.is_radio()};
  std::optional<Norm> norm;
  if (c.is_clip())
    norm = rows.make_norm(
        rows.norm_row({.stack = "embedding", .module = "ln_pre", .param = "weight"}));
  return {product, of_tokens, c.hidden_dropout, norm};
}

void declare_pooling_head(const ModelRows& rows) {
  const std::int64_t h = rows.config.hidden_size, f = rows.config.ffn();
  const auto add = [&](const char* module, const char* param, const Shape& shape) {
    Param row{.place = {.stack = "pooling_head", .module = module, .param = param},
              .shape = shape,
              .init = shape.rank() == 1 ? Initializer{} : matrix_init(rows.config, shape)};
    row.trainable = false;
    rows.table.add(std::move(row));
  };
  const auto add_linear = [&](const char* module, std::int64_t out, std::int64_t in) {
    add(module, "weight", {out, in});
    add(module, "bias", {out});
  };
  add("probe", "weight", {1, h});
  add_linear("attention.in_proj", 3 * h, h);
  add_linear("attention.out_proj", h, h);
  add("layernorm", "weight", {h});
  add("layernorm", "bias", {h});
  add_linear("mlp.fc1", f, h);
  add_linear("mlp.fc2", h, f);
}

SequenceHead make_image_head(const ModelRows& rows) {
  const std::int64_t h = rows.config.hidden_size, scores = rows.config.num_labels;
  if (rows.config.task_head == kImageClassifier)
    return {std::nullopt,
            make_whole(rows, {.stack = kImageClassifier}, {scores, h},
                       matrix_init(rows.config, {scores, h}), {Initializer::Kind::zeros}),
            0};
  if (rows.config.inpaints())
    return {std::nullopt, make_whole(rows, {.stack = kImageDecoder}, {scores, h}, {}, {}), 0};
  const Linear dense = make_whole(rows, {.stack = kImageHead, .module = "dense_in"}, {h, h},
                                  torch_init(h), torch_init(h));
  return {dense,
          make_whole(rows, {.stack = kImageHead, .module = "dense_out"}, {scores, h}, torch_init(h),
                     {Initializer::Kind::constant, -10}),
          0};
}

DinoHead make_dino_head(const ModelRows& rows) {
  const ModelConfig& c = rows.config;
  const std::int64_t wide = c.dino_head_hidden_size, narrow = c.dino_bottleneck_size,
                     outputs = c.dino_out_dim;
  const auto linear = [&](const char* module, std::int64_t out, std::int64_t in) {
    return make_whole(rows, {.stack = kDinoHead, .module = module}, {out, in},
                      {Initializer::Kind::normal, 0.02}, {Initializer::Kind::zeros});
  };
  const Linear first = linear("mlp.0", wide, c.hidden_size), second = linear("mlp.2", wide, wide),
               third = linear("mlp.4", narrow, wide);
  const auto row = [&](const char* param, const Shape& shape, const Initializer& init) {
    return Param{.place = {.stack = kDinoHead, .module = "last_layer", .param = param},
                 .shape = shape,
                 .init = init};
  };
  Param lengths = row("weight_g", {outputs, 1}, {Initializer::Kind::ones});
  lengths.trainable = !c.dino_norm_last_layer;
  const Param& of_lengths = rows.table.add(std::move(lengths));
  return {first, second, third,
          rows.table.add(row("weight_v", {outputs, narrow}, torch_init(narrow))), of_lengths};
}

}  // namespace mt
