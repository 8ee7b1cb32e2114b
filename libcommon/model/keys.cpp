#include "model/keys.h"

#include <algorithm>

#include "ckpt/tensor_source.h"
#include "model/config/model_config.h"
#include "model/layers.h"
#include "model/layers/layer_rows.h"
#include "model/stage_range.h"

namespace mt {
namespace {

struct NormModule {
  std::string_view linear, own;
};
constexpr NormModule kNorms[] = {
    {"self_attention.linear_qkv", "input_layernorm"},
    {"mlp.linear_fc1", "pre_mlp_layernorm"},
    {"self_attention.in_proj", "input_layernorm"},
    {"self_attention.linear_q_up_proj", "self_attention.q_layernorm"},
    {"self_attention.linear_kv_up_proj", "self_attention.kv_layernorm"}};
struct NormParam {
  std::string_view fused, own;
};
constexpr NormParam kNormParams[] = {{"layer_norm_weight", "weight"}, {"layer_norm_bias", "bias"}};

// The reverse of local_spec_place() for the norm in front of an MLP.
RowPlace dense_norm_place(const RowPlace& place) {
  if (place.module != kNorms[1].own) return place;
  RowPlace fused = place;
  fused.module = kNorms[1].linear;
  for (const NormParam& param : kNormParams)
    if (place.param == param.own) fused.param = param.fused;
  return fused;
}

}  // namespace

std::size_t inner_layer(std::string_view module) {
  constexpr std::string_view kLayers = ".layers.";
  const std::size_t at = module.find(kLayers);
  return at == module.npos ? 0 : module.find('.', at + kLayers.size()) + 1;
}

RowPlace local_spec_place(const RowPlace& place) {
  const std::size_t inside = inner_layer(place.module);
  const std::string_view module = std::string_view(place.module).substr(inside);
  for (const NormModule& norm : kNorms)
    for (const NormParam& param : kNormParams)
      if (module == norm.linear && place.param == param.fused) {
        RowPlace own = place;
        own.module = concat(place.module.substr(0, inside), norm.own);
        own.param = param.own;
        return own;
      }
  return place;
}

std::optional<RowPlace> second_place(const RowPlace& place) {
  if (place.also.empty()) return {};
  return RowPlace{.stack = place.also, .param = place.param};
}

// --- Keys ---------------------------------------------------------------------------------------

// Whether its layer is an index in front.
static bool is_stacked(const Param& row, const KeySpelling& spelling) {
  return row.layers > 0 && !spelling.numbered && !(spelling.of_state && row.state_key_has_layer);
}

static std::string key_at(const Param& row, const RowPlace& place, const KeySpelling& spelling) {
  RowPlace at = spelling.dense_norms ? dense_norm_place(place) : place;
  if (at.expert) {
    at.expert.reset();
    at.module = "mlp.experts.experts." + at.module;
  }
  if (is_stacked(row, spelling)) {
    at.layer.reset();
    at.module = "layers." + at.module;
  }
  return at.name();
}

std::string key_of(const Param& row, const KeySpelling& spelling) {
  const auto second = spelling.of_state ? second_place(row.place) : std::nullopt;
  return key_at(row, second.value_or(row.place), spelling);
}

namespace {

// Parts of a row that lie apart, or under keys of their own: where a rank has them, and where they
// are in the tensor of their key, which has `whole` indices of the axis.
struct Piece {
  Cut cut;
  std::int64_t whole;
  std::string name = {};  // behind the key
};

std::vector<Piece> pieces_of(const Param& row) {
  std::vector<Piece> pieces;
  if (!row.key_by_segments) {
    for (const Cut& cut : row.cuts) pieces.push_back({cut, row.shape[row.dimension]});
    return pieces;
  }
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < row.segments.size(); ++i) {
    const Segment& segment = row.segments[i];
    Cut cut{.local = begin, .global = 0, .extent = segment.extent};
    if (row.is_cut()) {
      cut = row.cuts[i];
      cut.global -= begin;
    }
    pieces.push_back({cut, segment.extent, "." + segment.name});
    begin += segment.extent;
  }
  return pieces;
}

std::vector<std::int64_t> extents_of(const Shape& shape) {
  return {shape.extents().begin(), shape.extents().end()};
}

// The shape with another extent of an axis, and axes in front.
Shape with(const Shape& shape, int axis, std::int64_t extent,
           const std::vector<std::int64_t>& front) {
  std::vector<std::int64_t> extents = extents_of(shape);
  extents[static_cast<std::size_t>(axis)] = extent;
  extents.insert(extents.begin(), front.begin(), front.end());
  return Shape(std::span<const std::int64_t>(extents));
}

}  // namespace

std::vector<KeyPart> key_parts(const Param& row, const KeySpelling& spelling) {
  std::vector<std::int64_t> stacked, place;
  if (is_stacked(row, spelling)) {
    stacked.push_back(row.layers);
    place.push_back(*row.place.layer);
  }
  if (row.experts > 0) {
    stacked.push_back(row.experts);
    place.push_back(*row.place.expert);
  }
  const std::vector<std::int64_t> ones(stacked.size(), 1);
  const Shape origin = origin_of(row.shape.rank());
  std::vector<KeyPart> parts;
  for (const Piece& piece : pieces_of(row)) {
    const Cut& cut = piece.cut;
    const bool by_rows = row.dimension == 0;
    if (!by_rows && row.cuts.size() > 1)
      fail(Exit::internal, row.name(), ": ", row.cuts.size(), " cuts of dimension ", row.dimension);
    KeyPart part{.key = key_of(row, spelling) + piece.name,
                 .whole = with(row.shape, row.dimension, piece.whole, stacked),
                 .offset = with(origin, row.dimension, cut.global, place),
                 .chunk = with(row.local, row.dimension, cut.extent, ones),
                 .begin = by_rows ? cut.local : 0,
                 .end = by_rows ? cut.local + cut.extent : row.local[0],
                 .stacked = static_cast<int>(stacked.size())};
    parts.push_back(part);
    if (const auto second = second_place(row.place); second && !spelling.of_state) {
      part.key = key_at(row, *second, spelling);
      parts.push_back(part);
    }
  }
  return parts;
}

// --- Optimizers ---------------------------------------------------------------------------------

std::string state_prefix(const std::string& state) {
  return state.empty() ? "" : concat("optimizer.state.", state, ".");
}

namespace {

// Axes in front as `stacked` has them, then those of the row's grid and of a block's elements.
Shape grid_shape(const Param& row, const KeyPart& part, const Shape& stacked, std::int64_t cut,
                 std::int64_t others, std::int64_t last) {
  std::vector<std::int64_t> extents = extents_of(stacked);
  extents.resize(static_cast<std::size_t>(part.stacked));
  for (int axis = 0; axis < row.shape.rank(); ++axis)
    extents.push_back(axis == row.dimension ? cut : others);
  extents.push_back(last);
  return Shape(std::span<const std::int64_t>(extents));
}

}  // namespace

KeyPart reformulated(const KeyPart& part, const Param& row) {
  const std::int64_t blocks = row.key_by_segments ? 1 : std::ssize(row.segments),
                     elements = part.chunk.numel() / blocks;
  KeyPart flat = part;
  flat.whole = grid_shape(row, part, part.whole, blocks, 1, elements);
  flat.offset = grid_shape(row, part, part.offset, 0, 0, 0);
  flat.chunk = grid_shape(row, part, part.chunk, blocks, 1, elements);
  return flat;
}

std::vector<KeyPart> reformulated_parts(const Param& row, std::int64_t begin, std::int64_t end) {
  const std::vector<KeyPart> all = key_parts(row, {.of_state = true});
  std::vector<KeyPart> parts;
  // Adds a block's part, if the rank has some of it: its elements begin at `first` of the
  // rank's, and its tensor has so many blocks.
  const auto add = [&](const KeyPart& of, std::int64_t first, std::int64_t elements,
                       std::int64_t block, std::int64_t blocks) {
    const std::int64_t from = std::max(begin, first), to = std::min(end, first + elements);
    if (from >= to) return;
    parts.push_back({.key = of.key,
                     .whole = grid_shape(row, of, of.whole, blocks, 1, elements),
                     .offset = grid_shape(row, of, of.offset, block, 0, from - first),
                     .chunk = grid_shape(row, of, of.chunk, 1, 1, to - from),
                     .begin = from,
                     .end = to,
                     .stacked = of.stacked});
  };
  if (row.key_by_segments) {
    for (const KeyPart& part : all) {
      const int axis = part.stacked + row.dimension;
      const std::int64_t extent = part.chunk[axis];
      add(part, part.begin * (row.local.numel() / row.local[0]), part.chunk.numel(),
          part.offset[axis] / extent, part.whole[axis] / extent);
    }
    return parts;
  }
  const std::int64_t here = std::ssize(row.segments), extent = row.local[row.dimension] / here,
                     blocks = row.shape[row.dimension] / extent,
                     elements = row.shape.numel() / blocks;
  for (std::int64_t i = 0; i < here; ++i)
    add(all.front(), i * elements, elements,
        row.is_cut() ? row.cuts[static_cast<std::size_t>(i)].global / extent : i, blocks);
  return parts;
}

// --- Extra states -------------------------------------------------------------------------------

// An object of all layers that are stacked, and of all experts, has a part for each of them.
static std::string extra_state(const std::string& module, const std::string& part = "0_1") {
  return concat(module, "._extra_state/shard_", part);
}

std::string extra_state_key(const Param& weight, const KeySpelling& spelling) {
  std::string numbers, counts;
  const auto add = [&](std::int64_t number, std::int64_t count) {
    const char* const separator = numbers.empty() ? "" : ".";
    numbers += concat(separator, number);
    counts += concat(separator, count);
  };
  if (is_stacked(weight, spelling)) add(*weight.place.layer, weight.layers);
  if (weight.experts > 0) add(*weight.place.expert, weight.experts);
  if (numbers.empty()) add(0, 1);
  const std::string key = key_of(weight, spelling);
  return extra_state(key.substr(0, key.rfind('.')), concat(numbers, "_", counts));
}

// Adds those that have this turn of a layer of a stack of so many, or of the layer inside it.
static void add_extra_states(std::vector<std::string>& keys, const ModelConfig& c,
                             const LayerPlan& layer, std::int64_t layers, ExtraState::Turn turn,
                             std::string_view inner = {}) {
  const std::string stack = concat(layer.stack, ".layers.");
  for (const BranchKind* kind : layer.branches)
    for (const ExtraState& state : kind->extra_states(c)) {
      if (state.turn != turn) continue;
      const std::string at = concat(stack, layer.stacked ? "" : concat(layer.number, "."), inner),
                        number = layer.stacked ? concat(layer.number) : "0",
                        of = layer.stacked ? concat(layers) : "1";
      if (!state.of_experts) {
        keys.push_back(extra_state(concat(at, state.module), concat(number, "_", of)));
        continue;
      }
      const std::string before = layer.stacked ? number + "." : "",
                        before_all = layer.stacked ? of + "." : "";
      for (std::int64_t expert = 0; expert < c.num_experts; ++expert)
        keys.push_back(extra_state(concat(at, "mlp.experts.experts.", state.module),
                                   concat(before, expert, "_", before_all, c.num_experts)));
    }
}

// The modules behind the layers that have one.
static std::vector<const char*> modules_behind(ModelFamily family) {
  switch (family) {
    case ModelFamily::gpt:
    case ModelFamily::mixtral:
    case ModelFamily::vit:
      return {"decoder.final_layernorm"};
    case ModelFamily::bert:
      return {"encoder.final_layernorm", "output_layer"};
    case ModelFamily::mamba:
      return {"decoder.final_norm", "output_layer"};
    case ModelFamily::retro:
    case ModelFamily::biencoder:
    case ModelFamily::llava:
      return {};
    case ModelFamily::t5:
      return {"encoder.final_layernorm", "decoder.final_layernorm", "lm_head.output_layer",
              "output_layer"};
  }
  return {};
}

// Those of a layer that predicts further tokens.
static void add_further_states(std::vector<std::string>& keys, const ModelConfig& c,
                               std::int64_t number) {
  using enum ExtraState::Turn;
  const std::string at = concat(kFurtherStack, ".layers.", number, ".");
  for (const char* module : {"enorm", "hnorm", "eh_proj"}) keys.push_back(extra_state(at + module));
  for (LayerPlan layer : further_layers_of(c)) {
    const std::string inner = c.family == ModelFamily::mamba
                                  ? concat("mtp_model_layer.layers.", layer.number, ".")
                                  : "transformer_layer.";
    layer.number = number;
    for (const ExtraState::Turn turn : {in_layer, end_of_layer, behind_layers})
      add_extra_states(keys, c, layer, 1, turn, inner);
  }
  keys.push_back(extra_state(at + "final_layernorm"));
}

std::vector<std::string> extra_states(const ModelConfig& c) {
  using enum ExtraState::Turn;
  // Megatron-Core has no such model, or other patches.
  if (c.family == ModelFamily::biencoder || c.family == ModelFamily::llava) return {};
  const std::vector<LayerPlan> layers = layers_of(c);
  std::vector<std::string> keys;
  for (const StackRun& stack : runs_of(layers, {.end = std::ssize(layers)}))
    for (const auto& turns : {std::vector{in_layer, end_of_layer}, std::vector{behind_layers}})
      for (const LayerPlan& layer : layers)
        if (layer.stack == stack.stack)
          for (const ExtraState::Turn turn : turns)
            add_extra_states(keys, c, layer, stack.end, turn);
  for (const char* module : modules_behind(c.family))
    if (!c.has_task_head() || module != std::string_view("output_layer"))
      keys.push_back(extra_state(module));
  for (std::int64_t i = 0; i < c.mtp_num_layers; ++i) add_further_states(keys, c, i);
  return keys;
}

}  // namespace mt
