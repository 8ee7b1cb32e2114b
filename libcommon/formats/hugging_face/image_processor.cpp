#include "formats/hugging_face/image_processor.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <tuple>

#include "base/allowance.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_parse.h"
#include "formats/hugging_face/config_families.h"
#include "model/image_tiles.h"

namespace mt {

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

// By the tower, which a joint model's own settings do not ask for.
static const ProcessorKind& usual_kind(const VisionConfig& tower) {
  return !tower.is_tower()      ? kVitKind
         : tower.is_clip()      ? kClipKind
         : tower.is_radio()     ? kClipKind
         : tower.is_internvit() ? kInternVitKind
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

// What stands around images is told by the tokenizer's settings, and how many tokens each tile has
// by the processor's.
static void check_words(const std::string& folder, const JsonObject& processor,
                        const ModelConfig& c) {
  if (processor.has("image_seq_length") &&
      processor.number("image_seq_length", kMostSize) != tokens_of_tile(c))
    processor.refuse("\"image_seq_length\" is ", processor.number("image_seq_length", kMostSize),
                     ", expected the ", tokens_of_tile(c), " tokens of a tile");
  const std::string path = folder + "/tokenizer_config.json";
  if (!std::filesystem::exists(path)) return;
  const std::string text = read_regular_file(path);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parse_json(parser, text).get(root)) return;  // its reader says what is wrong
  const JsonObject words(root, path);
  for (const auto& [name, tag] :
       {std::pair("start_image_token", "<img>"), {"end_image_token", "</img>"}})
    if (words.text_or(name, tag) != tag)
      words.refuse(json_quoted(name), " is ", json_quoted(words.text(name)), ", expected ", tag);
}

static bool is_internvl(const ModelConfig& c) {
  return c.family == ModelFamily::llava && c.vision_model_type == "internvit";
}

// Its processor cuts images whatever crop_to_patches is here.
static void read_tiles(const JsonObject& json, ModelConfig& c) {
  if (json.has("min_patches") && json.number("min_patches", kMostTiles) != 1)
    json.refuse("\"min_patches\" is not 1, which is not supported");
  c.max_num_tiles = json.has("max_patches") ? json.number("max_patches", kMostTiles) : 12;
  if (c.max_num_tiles == 0) json.refuse("\"max_patches\" is 0, expected 1 to ", kMostTiles);
  c.use_tiling = c.use_thumbnail = c.max_num_tiles > 1;
}

static void read_processor(const JsonObject& json, ModelConfig& c) {
  const ProcessorKind& kind = kind_of(json, c);
  if (json.has("crop_pct")) json.refuse("\"crop_pct\" is not supported");
  for (const char* const more :
       {"do_flip_channel_order", "do_grayscale", "rescale_offset", "do_pad"})
    expect(json, more, false);
  if (is_internvl(c))
    read_tiles(json, c);
  else
    expect(json, "crop_to_patches", false);
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
  if (c.is_radio()) {
    if (normalizes)
      json.refuse("\"do_normalize\" is not false, as it must be of a RADIO, which does it itself");
    return;
  }
  c.pixel_mean = normalizes ? colors(json, "image_mean", kind.mean) : "0,0,0";
  c.pixel_std = normalizes ? colors(json, "image_std", kind.std) : "1,1,1";
}

bool reads_images(const ModelConfig& c) {
  return c.family == ModelFamily::vit || c.family == ModelFamily::llava;
}

// JsonFile: the object of a file, which lies in memory as long as this does.
class JsonFile {
 public:
  explicit JsonFile(const std::string& path) : text_(read_regular_file(path)) {
    Allowance(text_.size()).take_json(text_, path);
    simdjson::dom::element root;
    if (const auto error = parse_json(parser_, text_).get(root)) fail_json(text_, path, error);
    object_.emplace(root, path);
  }
  const JsonObject& operator*() const { return *object_; }

 private:
  std::string text_;
  simdjson::dom::parser parser_;
  std::optional<JsonObject> object_;
};

void read_image_processor(const std::string& folder, ModelConfig& c) {
  constexpr const char* kImages = "image_processor";
  std::optional<JsonFile> joint, alone;
  if (const std::string path = concat(folder, "/", kProcessor); std::filesystem::exists(path))
    joint.emplace(path);
  if (joint && (**joint).has(kImages)) {
    read_processor((**joint).object(kImages), c);
  } else {
    alone.emplace(concat(folder, "/", kImageProcessor));
    read_processor(**alone, c);
  }
  if (is_internvl(c)) check_words(folder, joint ? **joint : **alone, c);
}

std::string video_processor_in(const std::string& folder) {
  const std::string path = concat(folder, "/", kProcessor);
  if (!std::filesystem::exists(path)) return {};
  const JsonFile joint(path);
  const bool says = (*joint).has("video_processor");
  return says ? (*joint).object("video_processor").json() + "\n" : std::string();
}

static void write_normalization(JsonWriter& json, const ModelConfig& c) {
  for (const auto& [name, flag, list] : {std::tuple("image_mean", "--pixel-mean", c.pixel_mean),
                                         {"image_std", "--pixel-std", c.pixel_std}}) {
    json.key(name).begin_array();
    for (const double number : color_numbers(flag, list)) json.value(number);
    json.end_array();
  }
}

// How pixels are weighed where an image becomes larger or smaller, and what becomes of them.
static void write_colors(JsonWriter& json, const ModelConfig& c) {
  json.member("resample", c.image_filter == "bicubic" ? kBicubic : kBilinear);
  json.member("do_rescale", true).member("rescale_factor", 1 / 255.);
  json.member("do_normalize", !c.is_radio());
  if (!c.is_radio()) write_normalization(json, c);
  json.member("do_convert_rgb", true);
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
  if (is_internvl(c))
    json.member("crop_to_patches", true)
        .member("min_patches", 1)
        .member("max_patches", c.cuts_images() ? c.max_num_tiles : 1);
  if (c.image_short_side > 0)
    json.key("crop_size")
        .begin_object()
        .member("height", c.img_h)
        .member("width", c.img_w)
        .end_object();
  write_colors(json, c);
  json.end_object();
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
  if (is_internvl(c)) {
    json.member("image_seq_length", tokens_of_tile(c));
    return json.member("processor_class", "InternVLProcessor").end_object().text() + "\n";
  }
  json.member("image_token", image_token).member("num_additional_image_tokens", c.class_tokens());
  json.member("patch_size", c.patch_dim).member("processor_class", "LlavaProcessor");
  json.member("vision_feature_select_strategy", c.vision_feature_select_strategy);
  return json.end_object().text() + "\n";
}

}  // namespace mt
