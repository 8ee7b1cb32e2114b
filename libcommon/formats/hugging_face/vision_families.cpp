#include "formats/hugging_face/vision_families.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <initializer_list>
#include <tuple>

#include "base/allowance.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_parse.h"
#include "base/json_place.h"
#include "formats/hugging_face/config_families.h"
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

// The model of a member, which is of one of these types.
static HuggingFaceConfig read_part(const ConfigJson& json, const char* name,
                                   std::initializer_list<std::string_view> types,
                                   void (*read)(const ConfigJson&, HuggingFaceConfig&)) {
  const ConfigJson part(json.object(name));
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

void read_llava(const ConfigJson& json, HuggingFaceConfig& config) {
  const ModelConfig tower =
      read_part(json, "vision_config", {"clip_vision_model", "siglip_vision_model"}, read_tower)
          .model;
  if (tower.attention_dropout != 0)
    json.object("vision_config").refuse("\"attention_dropout\" is not 0, which is not supported");
  config = read_part(json, "text_config", {"llama", "mistral", "qwen2"}, read_decoder);
  ModelConfig& c = config.model;
  c.family = ModelFamily::llava;
  static_cast<VisionConfig&>(c) = tower;
  c.vision_num_layers = tower.num_layers;
  c.vision_hidden_size = tower.hidden_size;
  c.vision_ffn_hidden_size = tower.ffn();
  c.vision_num_attention_heads = tower.num_attention_heads;
  c.vision_norm_epsilon = tower.norm_epsilon;
  c.vision_activation = tower.quick_gelu         ? "quick_gelu"
                        : tower.bias_gelu_fusion ? "gelu_tanh"
                                                 : "gelu";
  std::int64_t layer = -2;
  if (json.has("vision_feature_layer") && json.member("vision_feature_layer").get(layer))
    json.refuse("\"vision_feature_layer\": one layer is supported, not several");
  c.vision_feature_layer = layer;
  c.vision_feature_select_strategy = json.text_or("vision_feature_select_strategy", "default");
  json.expect_text("projector_hidden_act", "gelu");
  c.projector_bias = json.flag_or("multimodal_projector_bias", true);
  c.image_token_index =
      json.size_or(json.has("image_token_id") ? "image_token_id" : "image_token_index", 32000);
  if (json.flag_or("tie_word_embeddings", false)) c.untie_embeddings_and_output_weights = false;
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

void write_llava(JsonWriter& json, const ModelConfig& c) {
  json.member("image_token_index", c.image_token_index);
  json.member("image_seq_length", c.image_tokens() - c.first_feature());
  json.member("vision_feature_layer", c.vision_feature_layer);
  json.member("vision_feature_select_strategy", c.vision_feature_select_strategy);
  json.member("projector_hidden_act", "gelu");
  json.member("multimodal_projector_bias", c.projector_bias);
}

std::string_view vit_type(const ModelConfig& c) {
  return !c.is_tower()      ? "vit"
         : c.is_internvit() ? "internvl_vision"
         : c.is_clip()      ? "clip_vision_model"
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
      !(c.quick_gelu && c.is_tower()))
    refuse_setting("a ViT without GeLU");
  if (c.is_internvit())
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

// --- preprocessor_config.json -------------------------------------------------------------------

// As Pillow counts them.
constexpr std::int64_t kBilinear = 2, kBicubic = 3;

static std::string shortest(double number) {
  char text[32];
  return {text, std::to_chars(std::begin(text), std::end(text), number).ptr};
}

// Three numbers, as a setting has them; or one for all.
static std::string colors(const JsonObject& json, const char* name, const char* other) {
  if (!json.has(name)) return other;
  simdjson::dom::array list;
  double number = 0;
  if (!json.member(name).get(number))
    return concat(shortest(number), ',', shortest(number), ',', shortest(number));
  std::string text;
  std::size_t count = 0;
  if (!json.member(name).get(list))
    for (const simdjson::dom::element element : list) {
      if (element.get(number)) break;
      text += (count++ == 0 ? "" : ",") + shortest(number);
    }
  if (count != 3) json.refuse(json_quoted(name), ": expected three numbers");
  return text;
}

// What image processors of transformers do where their file does not say; the side is that of the
// square which an image becomes.
struct ProcessorKind {
  std::string_view name;
  std::int64_t filter;
  bool crops;
  const char *mean, *std;
  std::int64_t side = 224;
  bool can_crop = true;
};
constexpr const char *kHalves = "0.5,0.5,0.5", *kClipMean = "0.48145466,0.4578275,0.40821073",
                     *kClipStd = "0.26862954,0.26130258,0.27577711";
constexpr ProcessorKind kVitKind{"ViTImageProcessor", kBilinear, false, kHalves, kHalves},
    kClipKind{"CLIPImageProcessor", kBicubic, true, kClipMean, kClipStd},
    kSiglipKind{"SiglipImageProcessor", kBicubic, false, kHalves, kHalves},
    kInternVitKind{"GotOcr2ImageProcessor", kBicubic, false, kClipMean, kClipStd, 384, false},
    kLlavaKind{"LlavaImageProcessor", kBicubic, true, kClipMean, kClipStd};
constexpr const ProcessorKind* kKinds[] = {&kVitKind, &kClipKind, &kSiglipKind, &kInternVitKind,
                                           &kLlavaKind};

static const ProcessorKind& usual_kind(const ModelConfig& c) {
  return !c.is_tower()      ? kVitKind
         : c.is_clip()      ? kClipKind
         : c.is_internvit() ? kInternVitKind
                            : kSiglipKind;
}

// Under any of the names that generations of transformers gave it; that of the model's kind where
// none is said.
static const ProcessorKind& kind_of(const JsonObject& json, const ModelConfig& c) {
  const ProcessorKind& usual = usual_kind(c);
  for (const char* const member : {"image_processor_type", "feature_extractor_type"}) {
    if (!json.has(member)) continue;
    const std::string_view given = json.text(member);
    for (const ProcessorKind* const kind : kKinds) {
      const bool fits = c.is_tower() || kind == &usual;
      const std::string_view name = kind->name, stem = name.substr(0, name.find("ImageProcessor"));
      if (fits && (given == name || given == concat(name, "Fast") || given == concat(name, "Pil") ||
                   given == concat(stem, "FeatureExtractor")))
        return *kind;
    }
    json.refuse(json_quoted(member), " is ", json_quoted(given), ", expected ",
                json_quoted(usual.name));
  }
  return usual;
}

struct Sides {
  std::int64_t height = 0, width = 0, shortest = 0;  // shortest: alone
};

// As a number, or as {"height": ..., "width": ...}, or, where images are cut, as
// {"shortest_edge": ...}.
static Sides sides_of(const JsonObject& json, const char* name, bool cuts, std::int64_t usual) {
  simdjson::dom::object sides;
  if (!json.has(name)) return cuts ? Sides{.shortest = usual} : Sides{usual, usual};
  if (json.member(name).get(sides)) {
    const std::int64_t side = json.number(name, kMostSize);
    return cuts ? Sides{.shortest = side} : Sides{side, side};
  }
  const JsonObject size = json.object(name);
  if (cuts && size.names().size() == 1 && size.has("shortest_edge"))
    return {.shortest = size.number("shortest_edge", kMostSize)};
  if (!size.has("height") || !size.has("width"))
    json.refuse(json_quoted(name), " is ", size.json(), ", expected a height and a width",
                cuts ? ", or a shortest edge" : ": images are not cut to a square");
  return {size.number("height", kMostSize), size.number("width", kMostSize)};
}

static void check_sides(const JsonObject& json, const char* name, const Sides& sides,
                        const ModelConfig& c) {
  if (sides.height != c.img_h || sides.width != c.img_w)
    json.refuse(json_quoted(name), " is ", sides.height, " x ", sides.width,
                ", but \"image_size\" is ", c.img_h, " x ", c.img_w);
}

static void read_sides(const JsonObject& json, bool cuts, std::int64_t usual, ModelConfig& c) {
  const Sides sides = sides_of(json, "size", cuts, usual);
  if (cuts) {
    Sides kept = sides_of(json, "crop_size", true, usual);
    if (kept.shortest > 0) kept = {kept.shortest, kept.shortest};
    check_sides(json, "crop_size", kept, c);
  }
  c.image_short_side = sides.shortest;
  if (sides.shortest == 0) return check_sides(json, "size", sides, c);
  if (sides.shortest < std::max(c.img_h, c.img_w))
    json.refuse("\"size\" is of a shortest edge of ", sides.shortest,
                ", less than \"crop_size\": what would be lacking is not added");
}

static void expect(const JsonObject& json, const char* name, bool expected) {
  if (json.flag_or(name, expected) != expected)
    json.refuse(json_quoted(name), " is ", expected ? "false" : "true", ", which is not supported");
}

static void read_processor(const JsonObject& json, ModelConfig& c) {
  const ProcessorKind& kind = kind_of(json, c);
  if (json.has("crop_pct")) json.refuse("\"crop_pct\" is not supported");
  for (const char* const more :
       {"do_flip_channel_order", "do_grayscale", "rescale_offset", "do_pad", "crop_to_patches"})
    expect(json, more, false);
  expect(json, "do_resize", true);
  expect(json, "do_rescale", true);
  if (!c.is_tower() || !kind.can_crop) expect(json, "do_center_crop", false);
  if (json.has("rescale_factor") && json.real("rescale_factor") != 1 / 255.)
    json.refuse("\"rescale_factor\" is ", json.real("rescale_factor"), ", expected 1/255");
  const std::int64_t filter = json.has("resample") ? json.number("resample", 5) : kind.filter;
  if (filter != kBilinear && filter != kBicubic)
    json.refuse("\"resample\" is ", filter, ", expected 2, bilinear, or 3, bicubic");
  read_sides(json, json.flag_or("do_center_crop", kind.crops), kind.side, c);
  c.image_filter = filter == kBicubic ? "bicubic" : "bilinear";
  const bool normalizes = json.flag_or("do_normalize", true);
  c.pixel_mean = normalizes ? colors(json, "image_mean", kind.mean) : "0,0,0";
  c.pixel_std = normalizes ? colors(json, "image_std", kind.std) : "1,1,1";
}

bool reads_images(const ModelConfig& c) {
  return c.family == ModelFamily::vit || c.family == ModelFamily::llava;
}

void read_image_processor(const std::string& folder, ModelConfig& c) {
  std::string path = concat(folder, "/", kImageProcessor);
  const std::string joint = concat(folder, "/", kProcessor);
  const bool is_joint = !std::filesystem::exists(path) && std::filesystem::exists(joint);
  if (is_joint) path = joint;
  const std::string text = read_regular_file(path);
  Allowance(text.size()).take_json(text, path);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parse_json(parser, text).get(root))
    fail(Exit::bad_data, path, ": ", json_place(text), simdjson::error_message(error));
  const JsonObject json(root, path);
  read_processor(is_joint ? json.object("image_processor") : json, c);
}

static void write_processor(JsonWriter& json, const ModelConfig& c) {
  // Whatever tower follows, CLIP's is the processor that cuts.
  const ProcessorKind& kind = c.image_short_side > 0 ? kClipKind : usual_kind(c);
  json.begin_object().member("image_processor_type", kind.name);
  json.member("do_resize", true).key("size").begin_object();
  if (c.image_short_side > 0)
    json.member("shortest_edge", c.image_short_side).end_object();
  else
    json.member("height", c.img_h).member("width", c.img_w).end_object();
  if (c.is_tower()) json.member("do_center_crop", c.image_short_side > 0);
  if (c.image_short_side > 0)
    json.key("crop_size")
        .begin_object()
        .member("height", c.img_h)
        .member("width", c.img_w)
        .end_object();
  json.member("resample", c.image_filter == "bicubic" ? kBicubic : kBilinear);
  json.member("do_rescale", true).member("rescale_factor", 1 / 255.);
  json.member("do_normalize", true);
  for (const auto& [name, flag, list] : {std::tuple("image_mean", "--pixel-mean", c.pixel_mean),
                                         {"image_std", "--pixel-std", c.pixel_std}}) {
    json.key(name).begin_array();
    for (const double number : color_numbers(flag, list)) json.value(number);
    json.end_array();
  }
  json.member("do_convert_rgb", true).end_object();
}

std::string image_processor(const ModelConfig& c) {
  JsonWriter json;
  write_processor(json, c);
  return json.text() + "\n";
}

std::string joint_processor(const ModelConfig& c, std::string_view image_token) {
  JsonWriter json;
  json.begin_object().key("image_processor");
  write_processor(json, c);
  json.member("image_token", image_token).member("num_additional_image_tokens", c.class_tokens());
  json.member("patch_size", c.patch_dim).member("processor_class", "LlavaProcessor");
  json.member("vision_feature_select_strategy", c.vision_feature_select_strategy);
  return json.end_object().text() + "\n";
}

}  // namespace mt
