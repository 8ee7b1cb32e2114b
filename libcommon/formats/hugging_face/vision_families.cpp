// config.json of a ViT, of towers, and of what has one beside a language model.
#include <algorithm>
#include <initializer_list>
#include <tuple>

#include "base/json.h"
#include "formats/hugging_face/config_families.h"
#include "model/image_tiles.h"
#include "nn/mlp.h"

namespace mt {

// --- config.json of a ViT -----------------------------------------------------------------------

// A number, or two of rows and columns.
static std::pair<std::int64_t, std::int64_t> size_of(const char* name, const ConfigJson& json,
                                                     std::int64_t usual) {
  if (!json.has(name)) return {usual, usual};
  simdjson::dom::array sides;
  if (json.member(name).get(sides)) {
    const std::int64_t side = json.count_or(name, usual);
    return {side, side};
  }
  std::int64_t rows = 0, columns = 0;
  if (sides.size() != 2 || sides.at(0).get(rows) || sides.at(1).get(columns) || rows < 1 ||
      columns < 1 || rows > kMostSize || columns > kMostSize)
    json.refuse(json_quoted(name), ": expected a number, or two of rows and columns");
  return {rows, columns};
}

// The side of a square.
static std::int64_t side_of(const char* name, const ConfigJson& json, std::int64_t usual) {
  const auto [rows, columns] = size_of(name, json, usual);
  if (rows != columns) json.refuse(json_quoted(name), ": expected a square");
  return rows;
}

// How many classes it tells is said by their names, which are read later.
void read_vit(const ConfigJson& json, HuggingFaceConfig& config) {
  ModelConfig& c = config.model;
  c.family = ModelFamily::vit;
  c.num_layers = json.size_or("num_hidden_layers", 12);
  c.hidden_size = json.size_or("hidden_size", 768);
  c.num_attention_heads = json.size_or("num_attention_heads", 12);
  c.ffn_hidden_size = json.size_or("intermediate_size", 3072);
  c.norm_epsilon = json.real_or("layer_norm_eps", 1e-12);
  c.attention_dropout = json.real_or("attention_probs_dropout_prob", 0);
  c.hidden_dropout = json.real_or("hidden_dropout_prob", 0);
  const std::string_view activation = json.text_or("hidden_act", "gelu");
  c.bias_gelu_fusion = is_tanh_gelu(activation);
  if (!c.bias_gelu_fusion && !is_erf_gelu(activation)) json.expect_text("hidden_act", "gelu");
  std::tie(c.img_h, c.img_w) = size_of("image_size", json, 224);
  c.patch_dim = json.count_or("patch_size", 16);
  json.expect_number("num_channels", 3);
  json.expect_flag("qkv_bias", true);
  c.class_token_len = 1;
  c.max_position_embeddings = c.image_tokens();
}

// --- config.json of a tower, and of a LLaVA -----------------------------------------------------

void read_tower(const ConfigJson& json, HuggingFaceConfig& config) {
  ModelConfig& c = config.model;
  const bool clip = json.is("clip_vision_model");
  c.family = ModelFamily::vit;
  c.vision_model_type = clip ? "clip" : "siglip";
  c.num_layers = json.size_or("num_hidden_layers", 12);
  c.hidden_size = json.size_or("hidden_size", 768);
  c.num_attention_heads = json.size_or("num_attention_heads", 12);
  c.ffn_hidden_size = json.size_or("intermediate_size", 3072);
  c.norm_epsilon = json.real_or("layer_norm_eps", clip ? 1e-5 : 1e-6);
  c.attention_dropout = json.real_or("attention_dropout", 0);
  c.hidden_dropout = 0;
  const std::string_view activation =
      json.text_or("hidden_act", clip ? "quick_gelu" : "gelu_pytorch_tanh");
  c.quick_gelu = activation == "quick_gelu";
  c.bias_gelu_fusion = is_tanh_gelu(activation);
  if (!c.quick_gelu && !c.bias_gelu_fusion && !is_erf_gelu(activation))
    json.expect_text("hidden_act", clip ? "quick_gelu" : "gelu_pytorch_tanh");
  c.img_h = c.img_w = json.count_or("image_size", 224);
  c.patch_dim = json.count_or("patch_size", clip ? 32 : 16);
  json.expect_number("num_channels", 3);
  c.class_token_len = clip ? 1 : 0;
  c.vision_use_head = !clip && json.flag_or("vision_use_head", true);
  c.max_position_embeddings = c.image_tokens();
}

// transformers norms an InternViT's queries and keys with an epsilon of its own, and always by
// RMSNorm.
constexpr double kInternVitEpsilon = 1e-6;

void read_internvit(const ConfigJson& json, HuggingFaceConfig& config) {
  ModelConfig& c = config.model;
  c.family = ModelFamily::vit;
  c.vision_model_type = "internvit";
  c.num_layers = json.size_or("num_hidden_layers", 24);
  c.hidden_size = json.size_or("hidden_size", 1024);
  c.num_attention_heads = json.size_or("num_attention_heads", 16);
  c.ffn_hidden_size = json.size_or("intermediate_size", 4096);
  c.norm_epsilon = json.real_or("layer_norm_eps", kInternVitEpsilon);
  c.attention_dropout = json.real_or("attention_dropout", 0);
  c.hidden_dropout = 0;
  c.add_qkv_bias = json.flag_or("attention_bias", false);
  const std::string_view norm = json.text_or("norm_type", "layer_norm");
  if (norm != "rms_norm") json.expect_text("norm_type", "layer_norm");
  c.normalization = norm == "rms_norm" ? "RMSNorm" : "LayerNorm";
  c.qk_layernorm = c.qk_layernorm_whole = json.flag_or("use_qk_norm", false);
  if (c.qk_layernorm && (c.normalization != "RMSNorm" || c.norm_epsilon != kInternVitEpsilon))
    json.refuse(
        "\"use_qk_norm\" is true, expected a \"norm_type\" of rms_norm and a "
        "\"layer_norm_eps\" of 1e-06 with it");
  const std::string_view activation = json.text_or("hidden_act", "gelu");
  c.bias_gelu_fusion = is_tanh_gelu(activation);
  if (!c.bias_gelu_fusion && !is_erf_gelu(activation)) json.expect_text("hidden_act", "gelu");
  for (const char* const dropout : {"hidden_dropout_prob", "projection_dropout"})
    if (json.real_or(dropout, 0) != 0)
      json.refuse(json_quoted(dropout), " is not 0, which is not supported");
  c.img_h = c.img_w = side_of("image_size", json, 448);
  c.patch_dim = side_of("patch_size", json, 14);
  json.expect_number("num_channels", 3);
  json.expect_flag("use_mask_token", false);
  json.expect_flag("use_absolute_position_embeddings", true);
  json.expect_flag("use_mean_pooling", true);
  c.class_token_len = 1;
  c.max_position_embeddings = c.image_tokens();
}

// Three numbers, as a setting has them.
static std::string channels_of(const char* name, const ConfigJson& json, const char* usual) {
  simdjson::dom::array list;
  if (!json.has(name)) return usual;
  if (json.member(name).get(list) || list.size() != 3)
    json.refuse(json_quoted(name), ": expected three numbers");
  std::string text;
  for (const simdjson::dom::element element : list)
    text += concat(text.empty() ? "" : ",", simdjson::minify(element));
  color_numbers(name, text);
  return text;
}

// What int() makes of a product, as transformers' RadioMLP and RadioSwiGLUFFN have it.
static std::int64_t radio_ffn(std::int64_t hidden_size, double ratio, bool gated) {
  const auto whole = static_cast<std::int64_t>(static_cast<double>(hidden_size) * ratio);
  return gated ? (static_cast<std::int64_t>(static_cast<double>(whole * 2) / 3) + 7) / 8 * 8
               : whole;
}

void read_radio(const ConfigJson& json, HuggingFaceConfig& config) {
  ModelConfig& c = config.model;
  c.family = ModelFamily::vit;
  c.vision_model_type = "radio";
  c.num_layers = json.size_or("num_hidden_layers", 32);
  c.hidden_size = json.count_or("hidden_size", 1280);
  c.num_attention_heads = json.size_or("num_attention_heads", 16);
  c.norm_epsilon = json.real_or("layer_norm_eps", 1e-6);
  c.swiglu = json.flag_or("use_swiglu_ffn", false);
  const double ratio = json.positive_or("mlp_ratio", 4);
  if (ratio * static_cast<double>(c.hidden_size) > static_cast<double>(kMostSize))
    json.refuse("\"mlp_ratio\" is ", ratio, ", which makes an MLP too wide");
  c.ffn_hidden_size = radio_ffn(c.hidden_size, ratio, c.swiglu);
  c.attention_dropout = json.real_or("attention_probs_dropout_prob", 0);
  c.hidden_dropout = 0;
  const std::string_view activation = json.text_or("hidden_act", "gelu");
  c.bias_gelu_fusion = is_tanh_gelu(activation);
  if (!c.bias_gelu_fusion && !is_erf_gelu(activation)) json.expect_text("hidden_act", "gelu");
  for (const char* const part : {"hidden_dropout_prob", "drop_path_rate"})
    if (json.real_or(part, 0) != 0)
      json.refuse(json_quoted(part), " is not 0, which is not supported");
  if (json.real_or("layerscale_value", 1) != 1)
    json.refuse("\"layerscale_value\" is not 1, which is not supported");
  if (json.has("video_temporal_patch_size"))
    json.refuse("\"video_temporal_patch_size\": patches of videos are not supported");
  json.expect_flag("qkv_bias", true);
  json.expect_number("num_channels", 3);
  c.img_h = c.img_w = json.count_or("image_size", 224);
  c.patch_dim = json.count_or("patch_size", 16);
  c.max_img_size = json.count_or("max_img_size", 2048);
  c.num_registers = json.size_or("num_registers", 7);
  c.class_token_len = json.count_or("num_cls_tokens", 3) + c.num_registers;
  c.pixel_mean = channels_of("norm_mean", json, "0.48145466,0.4578275,0.40821073");
  c.pixel_std = channels_of("norm_std", json, "0.26862954,0.26130258,0.27577711");
  c.max_position_embeddings = c.learnt_positions();
}

// The model of a member, which is of one of these types: of the first where it does not say.
static HuggingFaceConfig read_part(const ConfigJson& json, const char* name,
                                   std::initializer_list<std::string_view> types,
                                   void (*read)(const ConfigJson&, HuggingFaceConfig&)) {
  const ConfigJson part(json.object(name), *types.begin());
  std::string known;
  for (const std::string_view type : types)
    known += concat(known.empty() ? "" : type == *(types.end() - 1) ? " or " : ", ", type);
  if (std::ranges::find(types, part.model_type()) == types.end())
    part.refuse("model_type ", json_quoted(part.model_type()), " is not supported in a ",
                json.model_type(), "; expected ", known);
  HuggingFaceConfig config;
  read(part, config);
  if (config.model.vocab_size == 0 && config.model.family != ModelFamily::vit)
    config.model.vocab_size = part.size("vocab_size");
  if (part.has("initializer_range")) config.model.init_method_std = part.real("initializer_range");
  return config;
}

// A language model with what a tower of this kind makes in front.
static void join_tower(const ConfigJson& json, const ModelConfig& tower, ModelConfig& c) {
  if (tower.attention_dropout != 0)
    json.object("vision_config").refuse("\"attention_dropout\" is not 0, which is not supported");
  take_tower(c, tower);
  std::int64_t layer = -2;
  if (json.has("vision_feature_layer") && json.member("vision_feature_layer").get(layer))
    json.refuse("\"vision_feature_layer\": one layer is supported, not several");
  c.vision_feature_layer = layer;
  c.vision_feature_select_strategy = json.text_or("vision_feature_select_strategy", "default");
  json.expect_text("projector_hidden_act", "gelu");
  if (json.flag_or("tie_word_embeddings", false)) c.untie_embeddings_and_output_weights = false;
}

static std::int64_t image_token(const ConfigJson& json, std::int64_t usual) {
  return json.size_or(json.has("image_token_id") ? "image_token_id" : "image_token_index", usual);
}

void read_llava(const ConfigJson& json, HuggingFaceConfig& config) {
  const ModelConfig tower =
      read_part(json, "vision_config", {"clip_vision_model", "siglip_vision_model"}, read_tower)
          .model;
  config = read_part(json, "text_config",
                     {"llama", "mistral", "qwen2", "qwen3", "phi3", "gemma", "olmo2", "smollm3"},
                     read_decoder);
  join_tower(json, tower, config.model);
  config.model.projector_bias = json.flag_or("multimodal_projector_bias", true);
  config.model.image_token_index = image_token(json, 32000);
}

// How images are cut the processor says.
void read_internvl(const ConfigJson& json, HuggingFaceConfig& config) {
  const ModelConfig tower =
      read_part(json, "vision_config", {"internvl_vision"}, read_internvit).model;
  config = read_part(json, "text_config", {"qwen2", "llama", "mistral", "qwen3"}, read_decoder);
  ModelConfig& c = config.model;
  join_tower(json, tower, c);
  if (!json.has("vision_feature_layer")) c.vision_feature_layer = -1;
  if (json.real_or("downsample_ratio", 0.5) != 0.5)
    json.refuse("\"downsample_ratio\" is not 0.5, which is not supported");
  make_internvl(c);
  c.image_token_index = image_token(json, 151667);
}

void write_tower(JsonWriter& json, const ModelConfig& c) {
  json.member("num_hidden_layers", c.num_layers).member("hidden_size", c.hidden_size);
  json.member("num_attention_heads", c.num_attention_heads).member("intermediate_size", c.ffn());
  json.member("layer_norm_eps", c.norm_epsilon).member("attention_dropout", c.attention_dropout);
  json.member("hidden_act", c.quick_gelu                              ? "quick_gelu"
                            : c.activation() == Activation::gelu_tanh ? "gelu_pytorch_tanh"
                                                                      : "gelu");
  json.member("image_size", c.img_h).member("patch_size", c.patch_dim);
  json.member("num_channels", c.num_channels);
  if (!c.is_clip()) json.member("vision_use_head", c.vision_use_head);
}

void write_internvit(JsonWriter& json, const ModelConfig& c) {
  json.member("num_hidden_layers", c.num_layers).member("hidden_size", c.hidden_size);
  json.member("num_attention_heads", c.num_attention_heads).member("intermediate_size", c.ffn());
  json.member("layer_norm_eps", c.norm_epsilon).member("attention_dropout", c.attention_dropout);
  json.member("attention_bias", c.add_qkv_bias).member("use_qk_norm", c.qk_layernorm);
  json.member("norm_type", c.normalization == "RMSNorm" ? "rms_norm" : "layer_norm");
  json.member("hidden_act", c.activation() == Activation::gelu_tanh ? "gelu_pytorch_tanh" : "gelu");
  for (const auto& [name, side] : {std::pair("image_size", c.img_h), {"patch_size", c.patch_dim}})
    json.key(name).begin_array().value(side).value(side).end_array();
  json.member("num_channels", c.num_channels).member("use_mean_pooling", true);
}

static double radio_ratio(const ModelConfig& c) {
  const double ratio = static_cast<double>(c.ffn()) / static_cast<double>(c.hidden_size);
  return c.swiglu ? ratio * 1.5 : ratio;
}

void write_radio(JsonWriter& json, const ModelConfig& c) {
  json.member("num_hidden_layers", c.num_layers).member("hidden_size", c.hidden_size);
  json.member("num_attention_heads", c.num_attention_heads).member("mlp_ratio", radio_ratio(c));
  json.member("use_swiglu_ffn", c.swiglu).member("layer_norm_eps", c.norm_epsilon);
  json.member("attention_probs_dropout_prob", c.attention_dropout);
  json.member("hidden_act", c.bias_gelu_fusion ? "gelu_pytorch_tanh" : "gelu");
  json.member("image_size", c.img_h).member("patch_size", c.patch_dim);
  json.member("max_img_size", c.max_img_size == 0 ? c.img_h : c.max_img_size);
  json.member("num_channels", c.num_channels);
  json.member("num_cls_tokens", c.class_token_len - c.num_registers);
  json.member("num_registers", c.num_registers);
  for (const auto& [name, list] :
       {std::pair("norm_mean", c.pixel_mean), {"norm_std", c.pixel_std}}) {
    json.key(name).begin_array();
    for (const double number : color_numbers(name, list)) json.value(number);
    json.end_array();
  }
}

static void write_joint(JsonWriter& json, const ModelConfig& c) {
  json.member("image_seq_length", tokens_of_tile(c));
  json.member("vision_feature_layer", c.vision_feature_layer);
  json.member("vision_feature_select_strategy", c.vision_feature_select_strategy);
  json.member("projector_hidden_act", "gelu");
}

void write_llava(JsonWriter& json, const ModelConfig& c) {
  json.member("image_token_index", c.image_token_index);
  write_joint(json, c);
  json.member("multimodal_projector_bias", c.projector_bias);
}

void write_internvl(JsonWriter& json, const ModelConfig& c) {
  json.member("image_token_id", c.image_token_index);
  write_joint(json, c);
  json.member("downsample_ratio", 0.5);
}

std::string_view llava_type(const ModelConfig& c) {
  const auto refuse = [&](bool is_so, const char* what) {
    if (is_so) refuse_setting(what);
  };
  const bool internvl = c.is_internvit();
  refuse(c.is_radio(), "a LLaVA with a RADIO");
  refuse(c.pixel_shuffle != internvl,
         internvl ? "an InternVL without --pixel-shuffle" : "--pixel-shuffle without an InternViT");
  refuse(internvl ? c.projector_normalization != "LayerNorm" ||
                        c.projector_norm_epsilon != kProjectorEpsilon
                  : c.projector_normalization != "none",
         internvl ? "an InternVL but with --projector-normalization LayerNorm and an epsilon of "
                    "1e-05"
                  : "--projector-normalization without an InternViT");
  refuse(internvl && !c.projector_bias, "an InternVL without --projector-bias");
  refuse(c.image_tag_type != (internvl ? "internvl" : "none"), "another --image-tag-type");
  refuse(c.use_area_weighted_aspect_ratio, "--use-area-weighted-aspect-ratio");
  refuse(c.use_tile_tags, "--use-tile-tags");
  refuse(!internvl && c.cuts_images(), "--use-tiling without an InternViT");
  refuse(c.cuts_images() && !c.use_thumbnail, "--use-tiling without --use-thumbnail");
  return internvl ? "internvl" : "llava";
}

std::string_view vit_type(const ModelConfig& c) {
  return !c.is_tower()            ? "vit"
         : c.is_radio()           ? "radio"
         : c.is_internvit_tower() ? "internvl_vision"
         : c.is_clip()            ? "clip_vision_model"
                                  : "siglip_vision_model";
}

// --- Which models have one ----------------------------------------------------------------------

static void check_internvit(const ModelConfig& c) {
  if (c.quick_gelu) refuse_setting("an InternViT with --quick-gelu");
  if (c.apply_layernorm_1p) refuse_setting("an InternViT with --apply-layernorm-1p");
  if (c.qk_layernorm && (!c.qk_layernorm_whole || c.normalization != "RMSNorm"))
    refuse_setting("an InternViT with --qk-layernorm but of whole queries and keys by RMSNorm");
  if (c.qk_layernorm && c.norm_epsilon != kInternVitEpsilon)
    refuse_setting("an InternViT with --qk-layernorm and another --norm-epsilon than 1e-06");
}

static void check_radio(const ModelConfig& c) {
  if (c.apply_layernorm_1p || c.normalization != "LayerNorm" || c.qk_layernorm)
    refuse_setting("a RADIO with norms that are not LayerNorm");
  if (radio_ffn(c.hidden_size, radio_ratio(c), c.swiglu) != c.ffn())
    refuse_setting(concat("a RADIO with --ffn-hidden-size ", c.ffn()).c_str());
}

void check_vit(const ModelConfig& c) {
  if (c.is_tower()) {
    if (c.img_h != c.img_w) refuse_setting("a tower of images that are no squares");
    if (c.hidden_dropout != 0) refuse_setting("a tower with --hidden-dropout");
  }
  if (c.inpaints()) refuse_setting("--vision-pretraining-type inpaint");
  if (c.is_dino()) refuse_setting("--vision-pretraining-type dino");
  if (!c.is_tower() && c.class_token_len != 1)
    refuse_setting(concat("--class-token-len ", c.class_token_len).c_str());
  if (c.vision_head == "mlp") refuse_setting("--vision-head mlp");
  if (c.activation() != Activation::gelu_tanh && c.activation() != Activation::gelu_erf &&
      !(c.quick_gelu && c.is_tower() && !c.is_radio()) && !(c.swiglu && c.is_radio()))
    refuse_setting("a ViT without GeLU");
  if (c.is_radio())
    check_radio(c);
  else if (c.is_internvit_tower())
    check_internvit(c);
  else if (c.normalization != "LayerNorm" || c.apply_layernorm_1p || c.qk_layernorm)
    refuse_setting("a ViT with norms that are not LayerNorm");
  if (c.kv_heads() != c.num_attention_heads ||
      c.head_dim() * c.num_attention_heads != c.hidden_size)
    refuse_setting("a ViT with query groups or --kv-channels");
}

void write_vit(JsonWriter& json, const ModelConfig& c) {
  json.member("num_hidden_layers", c.num_layers).member("hidden_size", c.hidden_size);
  json.member("num_attention_heads", c.num_attention_heads).member("intermediate_size", c.ffn());
  json.member("layer_norm_eps", c.norm_epsilon);
  json.member("attention_probs_dropout_prob", c.attention_dropout);
  json.member("hidden_dropout_prob", c.hidden_dropout);
  json.member("hidden_act", c.activation() == Activation::gelu_tanh ? "gelu_pytorch_tanh" : "gelu");
  if (c.img_h == c.img_w)
    json.member("image_size", c.img_h);
  else
    json.key("image_size").begin_array().value(c.img_h).value(c.img_w).end_array();
  json.member("patch_size", c.patch_dim).member("num_channels", c.num_channels);
  json.member("qkv_bias", true);
}

}  // namespace mt
