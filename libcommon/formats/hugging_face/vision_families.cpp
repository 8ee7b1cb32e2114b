#include "formats/hugging_face/vision_families.h"

#include <charconv>
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
static std::pair<std::int64_t, std::int64_t> size_of_image(const ConfigJson& json) {
  constexpr const char* kName = "image_size";
  if (!json.has(kName)) return {224, 224};
  simdjson::dom::array sides;
  if (json.member(kName).get(sides)) {
    const std::int64_t side = json.count_or(kName, 224);
    return {side, side};
  }
  std::int64_t rows = 0, columns = 0;
  if (sides.size() != 2 || sides.at(0).get(rows) || sides.at(1).get(columns) || rows < 1 ||
      columns < 1 || rows > kMostSize || columns > kMostSize)
    json.refuse(json_quoted(kName), ": expected a number, or two of rows and columns");
  return {rows, columns};
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
  std::tie(c.img_h, c.img_w) = size_of_image(json);
  c.patch_dim = json.count_or("patch_size", 16);
  json.expect_number("num_channels", 3);
  json.expect_flag("qkv_bias", true);
  c.class_token_len = 1;
  c.max_position_embeddings = c.image_tokens();
}

void check_vit(const ModelConfig& c) {
  if (c.inpaints()) refuse_setting("--vision-pretraining-type inpaint");
  if (c.class_token_len != 1)
    refuse_setting(concat("--class-token-len ", c.class_token_len).c_str());
  if (c.vision_head == "mlp") refuse_setting("--vision-head mlp");
  if (c.activation() != Activation::gelu_tanh && c.activation() != Activation::gelu_erf)
    refuse_setting("a ViT without GeLU");
  if (c.normalization != "LayerNorm" || c.apply_layernorm_1p || c.qk_layernorm)
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

// As a number, or as {"height": ..., "width": ...}.
static void check_size(const JsonObject& json, const ModelConfig& c) {
  constexpr const char* kName = "size";
  std::int64_t height = 224, width = 224;
  if (simdjson::dom::object sides; json.has(kName) && !json.member(kName).get(sides)) {
    const JsonObject size = json.object(kName);
    if (!size.has("height") || !size.has("width"))
      json.refuse(json_quoted(kName), " is ", size.json(),
                  ", expected a height and a width: images are not cut to a square");
    height = size.number("height", kMostSize);
    width = size.number("width", kMostSize);
  } else if (json.has(kName)) {
    height = width = json.number(kName, kMostSize);
  }
  if (height != c.img_h || width != c.img_w)
    json.refuse(json_quoted(kName), " is ", height, " x ", width, ", but \"image_size\" is ",
                c.img_h, " x ", c.img_w);
}

static void expect(const JsonObject& json, const char* name, bool expected) {
  if (json.flag_or(name, expected) != expected)
    json.refuse(json_quoted(name), " is ", expected ? "false" : "true", ", which is not supported");
}

// What it leaves out is as ViTImageProcessor has it by default.
void read_image_processor(const std::string& folder, ModelConfig& c) {
  const std::string path = concat(folder, "/", kImageProcessor), text = read_regular_file(path);
  Allowance(text.size()).take_json(text, path);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parse_json(parser, text).get(root))
    fail(Exit::bad_data, path, ": ", json_place(text), simdjson::error_message(error));
  const JsonObject json(root, path);
  for (const char* const kind : {"image_processor_type", "feature_extractor_type"})
    if (const std::string_view given = json.text_or(kind, "ViTImageProcessor");
        given != "ViTImageProcessor" && given != "ViTImageProcessorFast" &&
        given != "ViTImageProcessorPil" && given != "ViTFeatureExtractor")
      json.refuse(json_quoted(kind), " is ", json_quoted(given),
                  ", expected \"ViTImageProcessor\"");
  if (json.has("crop_pct")) json.refuse("\"crop_pct\" is not supported");
  for (const char* const more : {"do_flip_channel_order", "do_grayscale", "rescale_offset"})
    expect(json, more, false);
  expect(json, "do_resize", true);
  expect(json, "do_rescale", true);
  expect(json, "do_center_crop", false);
  expect(json, "do_pad", false);
  if (json.has("rescale_factor") && json.real("rescale_factor") != 1 / 255.)
    json.refuse("\"rescale_factor\" is ", json.real("rescale_factor"), ", expected 1/255");
  const std::int64_t filter = json.has("resample") ? json.number("resample", 5) : kBilinear;
  if (filter != kBilinear && filter != kBicubic)
    json.refuse("\"resample\" is ", filter, ", expected 2, bilinear, or 3, bicubic");
  check_size(json, c);
  c.image_filter = filter == kBicubic ? "bicubic" : "bilinear";
  const bool normalizes = json.flag_or("do_normalize", true);
  c.pixel_mean = normalizes ? colors(json, "image_mean", "0.5,0.5,0.5") : "0,0,0";
  c.pixel_std = normalizes ? colors(json, "image_std", "0.5,0.5,0.5") : "1,1,1";
}

std::string image_processor(const ModelConfig& c) {
  JsonWriter json;
  json.begin_object().member("image_processor_type", "ViTImageProcessor");
  json.member("do_resize", true).key("size").begin_object();
  json.member("height", c.img_h).member("width", c.img_w).end_object();
  json.member("resample", c.image_filter == "bicubic" ? kBicubic : kBilinear);
  json.member("do_rescale", true).member("rescale_factor", 1 / 255.);
  json.member("do_normalize", true);
  for (const auto& [name, flag, list] : {std::tuple("image_mean", "--pixel-mean", c.pixel_mean),
                                         {"image_std", "--pixel-std", c.pixel_std}}) {
    json.key(name).begin_array();
    for (const float number : color_numbers(flag, list)) json.value(number);
    json.end_array();
  }
  json.member("do_convert_rgb", true);
  return json.end_object().text() + "\n";
}

}  // namespace mt
