#include "model/families/llava.h"

#include <algorithm>

#include "base/error.h"
#include "comm/group.h"
#include "model/config/model_config.h"
#include "model/image_tiles.h"
#include "model/layers/layer_rows.h"
#include "ops/ops.h"

namespace mt {
namespace {

// Random numbers of images differ from those of texts.
constexpr std::uint32_t kImages = 1;

// Megatron's names of the parts.  A place keeps views: of constants.
struct PartStack {
  LlavaPart part;
  std::string_view joint, own;
};
constexpr PartStack kStacks[] = {
    {LlavaPart::language, "language_model.embedding", "embedding"},
    {LlavaPart::language, "language_model.decoder", "decoder"},
    {LlavaPart::language, "language_model.output_layer", "output_layer"},
    {LlavaPart::tower, "vision_model.embedding", "embedding"},
    {LlavaPart::tower, kTowerLayers, "decoder"},
    {LlavaPart::tower, "vision_model.pooling_head", "pooling_head"},
    {LlavaPart::projector, "vision_projection.encoder", "encoder"},
};

const PartStack& stack_of(const RowPlace& place) {
  const auto* const found = std::ranges::find(kStacks, place.stack, &PartStack::joint);
  if (found == std::end(kStacks)) fail(Exit::internal, place.name(), ": is of no part of a LLaVA");
  return *found;
}

// The rows from there on are of this part.
void name_part(ParamTable& table, std::size_t begin, LlavaPart part) {
  for (std::size_t i = begin; i < table.rows().size(); ++i) {
    RowPlace& place = table.rows()[i].place;
    const auto* const found = std::ranges::find_if(kStacks, [&](const PartStack& stack) {
      return stack.part == part && stack.own == place.stack;
    });
    if (found == std::end(kStacks)) fail(Exit::internal, place.name(), ": has no place in a LLaVA");
    place.stack = found->joint;
  }
}

// This Step over images, which no ranks share the rows of.
Step over_images(const Step& s, const Tokens& tokens) {
  Step of_images = s.over(tokens);
  of_images.inserted = {};
  of_images.sequence_parallel = false;
  return of_images;
}

// As many images as there are tokens of them.
Step over_images(const Step& s, const ModelConfig& c, ConstTensor places) {
  const std::int64_t images = places.numel() / c.image_tokens();
  return over_images(s, {.sequences = images,
                         .length = c.image_tokens(),
                         .positions = places,
                         .causal = false,
                         .stack = kImages,
                         .of_sample = std::max<std::int64_t>(1, images / s.tokens.sequences)});
}

}  // namespace

LlavaPart llava_part(const RowPlace& place) { return stack_of(place).part; }

RowPlace place_in_part(const RowPlace& place) {
  RowPlace own = place;
  own.stack = stack_of(place).own;
  return own;
}

bool is_idle(const ModelConfig& llava, const RowPlace& place) {
  const PartStack& stack = stack_of(place);
  if (stack.part != LlavaPart::tower || stack.own == "embedding") return false;
  return !place.layer || *place.layer >= llava.tower_layers();
}

Llava::Llava(const ModelConfig& config, const StageRanges& ranges, const TensorPart& part)
    : config_(std::make_unique<ModelConfig>(config)) {
  table_.divide(part.rank, part.ranks);
  language_ = std::make_unique<Gpt>(table_, language_config(config), ranges, part);
  name_part(table_, 0, LlavaPart::language);
  if (std::ranges::any_of(ranges, &StageRange::first)) add_tower(part);
  table_.freeze([&](const RowPlace& place) { return is_idle(*config_, place); });
}

Llava::~Llava() = default;

void Llava::add_tower(TensorPart part) {
  part.sequence_parallel = false;
  const ModelConfig tower = tower_config(*config_);
  const std::int64_t layers = config_->tower_layers(), h = config_->hidden_size,
                     in = tower.hidden_size * (config_->pixel_shuffle ? 4 : 1);
  const std::size_t begin = table_.rows().size();
  tower_ =
      std::make_unique<Vit>(table_, tower,
                            StageRanges{{.begin = 0, .end = layers, .last = false},
                                        {.begin = layers, .end = tower.num_layers, .first = false}},
                            part);
  name_part(table_, begin, LlavaPart::tower);
  const auto linear = [&](const char* module, const Shape& shape) {
    Linear made(
        table_,
        {.place = {.stack = "vision_projection.encoder", .module = module, .param = "weight"},
         .shape = shape,
         .init = matrix_init(*config_, shape)},
        config_->projector_bias);
    return made;
  };
  projector_rows_ = make_unit(table_, [&] {
    std::optional<Norm> norm;
    if (config_->projector_normalization != "none")
      norm.emplace(
          table_,
          Param{.place = {.stack = "vision_projection.encoder",
                          .module = "linear_fc1",
                          .param = "layer_norm_weight"},
                .shape = {in}},
          Norm::Options{.kind = config_->projector_normalization == "RMSNorm" ? NormKind::rms
                                                                              : NormKind::layer,
                        .eps = config_->projector_norm_epsilon});
    const Linear fc1 = linear("linear_fc1", {h, in}), fc2 = linear("linear_fc2", {h, h});
    projector_ = {norm, fc1, fc2};
  });
}

WireShapes Llava::wire(const Step& s, const Fields& batch, Side side) const {
  return language_->wire(s, batch, side);
}

// The Step's tokens are the images'.
Tensor Llava::make_rows(Step& s, const Tensor& pixels, const Tensor& places, Saved* saved) const {
  Fields batch;
  batch[Field::pixels] = pixels.reshape({s.tokens.count(), config_->patch_width()});
  batch[Field::ids] = places;
  s.chunk = 0;
  Wire of_tower;
  tower_->forward(s, of_tower, {}, batch, {}, saved ? &saved->tower : nullptr);
  const Tensor hidden = of_tower.hidden(), features = make_features(s, hidden, saved);
  Tensor normed = features;
  if (projector_->norm) {
    normed = s.kept(saved, features.shape());
    projector_->norm->forward(s, normed, features, saved ? &saved->norm : nullptr);
  }
  const Shape wide{features.shape()[0], config_->hidden_size};
  const Tensor rows = s.kept(saved, wide), h = s.kept(saved, wide), a = s.kept(saved, wide);
  projector_->fc1.forward(s, h, normed);
  gelu_forward(a, h, GeluForm::erf, s.stream);
  projector_->fc2.forward(s, rows, a);
  if (saved) {
    saved->hidden = hidden;
    saved->features = features;
    saved->normed = normed;
    saved->h = h;
    saved->a = a;
  }
  return rows;
}

// Patches that become one row stand together (make_tile_inputs()), behind the tokens of classes of
// each tile.
Tensor Llava::make_features(Step& s, const Tensor& hidden, const Saved* saved) const {
  if (!config_->pixel_shuffle) return hidden;
  const std::int64_t tokens = config_->image_tokens(), width = hidden.shape()[1],
                     each = rows_of_tile(*config_), tiles = hidden.shape()[0] / tokens;
  const Tensor features = s.kept(saved, {tiles * each, 4 * width});
  for (std::int64_t i = 0; i < tiles; ++i)
    copy(features.rows(i * each, (i + 1) * each).reshape({4 * each, width}),
         hidden.rows((i + 1) * tokens - 4 * each, (i + 1) * tokens), s.stream);
  return features;
}

void Llava::features_backward(Step& s, Tensor d_hidden, ConstTensor d_features) const {
  const std::int64_t tokens = config_->image_tokens(), width = d_hidden.shape()[1],
                     each = rows_of_tile(*config_), tiles = d_hidden.shape()[0] / tokens;
  set_zero(d_hidden, s.stream);
  for (std::int64_t i = 0; i < tiles; ++i)
    copy(d_hidden.rows((i + 1) * tokens - 4 * each, (i + 1) * tokens),
         d_features.rows(i * each, (i + 1) * each).reshape({4 * each, width}), s.stream);
}

// A run freezes all of it, or nothing.
bool Llava::tower_learns() const {
  return std::ranges::any_of(table_.rows(), [](const Param& row) {
    return row.trainable && llava_part(row.place) == LlavaPart::tower;
  });
}

void Llava::make_rows_backward(Step& s, ConstTensor d_rows, const Saved& saved) const {
  s.chunk = 0;
  Wire none, of_tower;
  of_tower.hidden() = s.gradient(saved.hidden.shape());
  {
    const ArenaScope scope(s.layer);
    const Tensor dh = s.gradient(saved.h.shape()), da = s.scratch(saved.a.shape());
    projector_->fc2.backward(s, da, d_rows, saved.a);
    gelu_backward(dh, da, saved.h, GeluForm::erf, s.stream);
    const bool shuffles = config_->pixel_shuffle;
    const Tensor d_features = shuffles ? s.scratch(saved.features.shape()) : of_tower.hidden(),
                 d_normed = projector_->norm ? s.scratch(saved.normed.shape()) : d_features;
    projector_->fc1.backward(s, d_normed, dh, saved.normed);
    if (projector_->norm)
      projector_->norm->backward(s, d_features, d_normed, saved.features, saved.norm);
    if (shuffles) features_backward(s, of_tower.hidden(), d_features);
  }
  s.complete(projector_rows_);
  if (tower_learns()) tower_->backward(s, none, of_tower, saved.tower);
}

void Llava::forward(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
                    Model::Saved* slot) const {
  auto* saved = static_cast<Saved*>(slot);
  const Tensor& pixels = batch[Field::pixels];
  if (pixels && !batch[Field::image_rows]) {
    Step of_images = over_images(s, *config_, batch[Field::ids]);
    copy(ends.hidden, make_rows(of_images, pixels, batch[Field::ids], nullptr), s.stream);
    return;
  }
  s.inserted = {.row_of = batch[Field::image_rows]};
  if (const Tensor& made = batch[Field::image_hidden]) {
    const Tensor rows = s.scratch(made.shape());
    copy(rows, made, s.stream);
    s.inserted.hidden = rows;
  }
  if (pixels && tower_) {
    const Tensor& places = batch[Field::encoder_positions];
    Step of_images = over_images(s, *config_, places);
    s.inserted.hidden = make_rows(of_images, pixels, places, saved);
    if (saved) {
      saved->images = of_images.tokens;
      saved->row_of = s.inserted.row_of;
    }
  }
  language_->forward(s, out, in, batch, ends, saved ? &saved->language : nullptr);
}

void Llava::backward(Step& s, Wire& din, const Wire& dout, const Model::Saved& slot) const {
  const auto& saved = static_cast<const Saved&>(slot);
  if (!saved.row_of) return language_->backward(s, din, dout, saved.language);
  const Shape wide = saved.h.shape();
  const Tensor sums = s.scratch_sums(wide);
  set_zero(sums, s.stream);
  s.inserted = {.row_of = saved.row_of, .gradient = sums};
  language_->backward(s, din, dout, saved.language);
  if (s.shares_rows()) s.tensor->all_reduce(sums).wait();
  const Tensor d_rows = s.gradient(wide);
  copy(d_rows, sums, s.stream);
  Step of_images = over_images(s, saved.images);
  make_rows_backward(of_images, d_rows, saved);
}

}  // namespace mt
