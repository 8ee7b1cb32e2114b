// Models of images as transformers saved them (scripts/make-image-folder-goldens.py): what becomes
// of an image, what they make of it, and the folder that is written of them.
#include <gtest/gtest.h>

#include <simdjson.h>

#include <fstream>

#include "base/json_object.h"
#include "base/sha256.h"
#include "formats/hugging_face/image_processor.h"
#include "image/image.h"
#include "model/families/vit.h"
#include "model/image_input.h"
#include "ops/ops.h"
#include "tests/formats/convert_support.h"
#include "tests/support/workbench.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

const std::string kModels = std::string(MT_TESTDATA) + "/models/";

// What a run makes of an image for a model: of all its tokens.
std::vector<float> pixels_of(const std::string& image, const ModelConfig& c) {
  std::vector<float> pixels(static_cast<std::size_t>(c.image_tokens() * c.patch_width()));
  make_image_input(c, read_image(std::string(MT_TESTDATA) + "/images/" + image), pixels);
  return pixels;
}

// Of so many layers of a folder's model the logits, or, where it has no head, the last hidden
// states.
std::vector<float> numbers_of(const ModelSource& source, std::vector<float>& pixels,
                              std::int64_t layers) {
  const ModelConfig& c = source.config();
  const bool whole = layers == c.num_layers, has_head = c.has_task_head();
  Vit model(c, StageRanges{{0, layers, true, whole}});
  model.table().allocate(Device::cpu, DType::f32, false);
  for (const Param& row : model.table().rows()) source.read(row, "", row.value);
  const std::int64_t tokens = c.image_tokens();
  Workbench bench({.dtype = DType::f32, .sequences = 1, .seq_length = tokens, .training = false});
  std::vector<std::int32_t> ids, row_of(static_cast<std::size_t>(tokens), -1), rows = {0};
  for (std::int32_t i = 0; i < tokens; ++i) ids.push_back(i);
  row_of[0] = 0;
  Fields batch;
  batch[Field::pixels] = {pixels.data(), DType::f32, {std::ssize(pixels)}};
  batch[Field::ids] = {ids.data(), DType::i32, {tokens}};
  batch[Field::rows] = {rows.data(), DType::i32, {1}};
  batch[Field::row_of] = {row_of.data(), DType::i32, {tokens}};
  std::vector<float> numbers(
      static_cast<std::size_t>(has_head ? c.num_labels : tokens * c.hidden_size));
  const Tensor said(numbers.data(), DType::f32,
                    has_head ? Shape{1, c.num_labels} : Shape{tokens, c.hidden_size});
  Ends ends;
  (has_head ? ends.logits : ends.hidden) = said;
  Step s = bench.step();
  Wire out;
  model.forward(s, out, {}, batch, ends, nullptr);
  if (!whole) copy(said, out.hidden(), bench.stream());
  bench.stream().synchronize();
  return numbers;
}

class ImageFolders : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Of, ImageFolders, testing::Values("vit", "towers"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(ImageFolders, MakeWhatTransformersDoes) {
  std::ifstream file(concat(kModels, GetParam(), ".jsonl"));
  simdjson::dom::parser parser;
  int compared = 0;
  for (std::string text; std::getline(file, text);) {
    const JsonObject line(parser.parse(text), GetParam());
    if (!line.has("image")) continue;
    const std::string image(line.text("image"));
    const auto source = open_model(concat(kModels, line.text("folder")));
    const ModelConfig& c = source->config();
    if (!c.knows_own_positions()) continue;  // which a joint model has of it (joined_source_test)
    std::vector<float> pixels = pixels_of(image, c);
    const auto of_patches =
        std::span(pixels).subspan(static_cast<std::size_t>(c.class_tokens() * c.patch_width()));
    EXPECT_EQ(
        sha256_hex({reinterpret_cast<const char*>(of_patches.data()), of_patches.size_bytes()}),
        line.text("pixels"))
        << image;
    for (const char* const which : {"numbers", "before"}) {
      if (!line.has(which)) continue;
      const bool before = which == std::string_view("before");
      const std::vector<float> numbers = numbers_of(*source, pixels, c.num_layers - before);
      std::vector<double> expected;
      for (const simdjson::dom::element number : line.member(which).get_array())
        expected.push_back(number.get_double());
      ASSERT_EQ(numbers.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(double{numbers[i]}, expected[i], 1e-5)
            << line.text("folder") << ' ' << image << ' ' << which;
      ++compared;
    }
  }
  EXPECT_EQ(compared, GetParam() == std::string_view("vit") ? 12 : 30);
}

class ImageFolder : public Convert, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Of, ImageFolder,
                         testing::Values("vit", "vit-hidden", "clip", "siglip", "internvit",
                                         "internvit-rms", "radio", "radio-swiglu"),
                         [](const auto& param) {
                           const std::string_view name = param.param;
                           return name == "vit"             ? std::string("Classes")
                                  : name == "vit-hidden"    ? std::string("Hidden")
                                  : name == "internvit-rms" ? std::string("InternVitRms")
                                  : name == "radio-swiglu"  ? std::string("RadioSwiglu")
                                                            : std::string(name);
                         });

// By way of Megatron's formats, with the settings and all tensors but those that are passed over.
TEST_P(ImageFolder, IsWrittenAsItWasRead) {
  fs::copy(kModels + GetParam(), scratch_.path("hf"));
  for (const char* format : {"torch_dist", "torch_dcp", "torch"}) {
    ConvertOptions options;
    options.ckpt_format = format;
    if (format == std::string_view("torch")) {
      options.target_pipeline_parallel = 2;
      options.target_tensor_parallel = GetParam() == std::string_view("internvit-rms") ? 1 : 2;
    }
    options.verify = true;
    const std::string core = concat("core_", format), back = concat("back_", format);
    convert("hf", core, "core", options);
    convert(core, back, "hf");
    const auto theirs = open_model(scratch_.path("hf")), ours = open_model(scratch_.path(back));
    EXPECT_EQ(differing_setting(ours->config(), theirs->config()), nullptr);
    EXPECT_EQ(ours->config().label_names, theirs->config().label_names);
    EXPECT_EQ(ours->config().image_filter, theirs->config().image_filter);
    EXPECT_EQ(ours->config().image_short_side, theirs->config().image_short_side);
    const SafetensorsReader before(scratch_.path("hf/model.safetensors")),
        after(scratch_.path(back + "/model.safetensors"));
    for (const auto& [key, tensor] : before.tensors()) {
      const bool is_constant = key.ends_with("lambda1") ||
                               key.find("input_conditioner.") != key.npos ||
                               key.ends_with("summary_idxs");
      if (key.starts_with("pooler.") || is_constant) continue;
      EXPECT_EQ(after.at(key).shape, tensor.shape) << key;
      const HostTensor a(DType::bf16, tensor.shape), b(DType::bf16, tensor.shape);
      before.read_original(key, origin_of(tensor.shape.rank()), a);
      after.read_original(key, origin_of(tensor.shape.rank()), b);
      EXPECT_SAME_BITS(a.view(), b.view()) << key;
    }
  }
}

// As Megatron's files of ranks cut them: each has the norms of its own heads.
TEST_F(Convert, OfAnInternVitNormsOfWholeQueriesAreNotSharedOut) {
  fs::copy(kModels + "internvit-rms", scratch_.path("hf"));
  ConvertOptions options;
  options.ckpt_format = "torch";
  options.target_tensor_parallel = 2;
  EXPECT_EQ(error("hf", "core", "core", options),
            "78 --target-tensor-parallel-size 2: in files of ranks not of an InternViT with "
            "--qk-layernorm, of whose norms each would have a part");
  EXPECT_FALSE(fs::exists(scratch_.path("core")));
}

// As Megatron's InternViT has them, whose norms are modules of their own.
TEST_F(Convert, OfAnInternVitNoNormIsFused) {
  const ParamTable table = model_rows(open_model(kModels + "internvit-rms")->config());
  std::vector<std::string> norms;
  for (const Param& row : table.rows())
    if (row.place.layer == 0 && row.name().find("norm") != std::string::npos)
      norms.push_back(row.name());
  const std::string layer = "decoder.layers.0.";
  EXPECT_EQ(norms,
            (std::vector<std::string>{
                layer + "input_layernorm.weight", layer + "self_attention.q_layernorm.weight",
                layer + "self_attention.k_layernorm.weight", layer + "pre_mlp_layernorm.weight"}));
}

// transformers' usual processor of an InternViT does not cut.
TEST_F(Convert, OfATowerThatCutsTheProcessorIsWrittenAsClips) {
  for (const char* const tower : {"internvit", "siglip"}) {
    fs::remove_all(scratch_.path("hf"));
    fs::copy(kModels + tower, scratch_.path("hf"));
    const std::int64_t side = open_model(scratch_.path("hf"))->config().img_h;
    write_file_atomically(scratch_.path("hf/preprocessor_config.json"),
                          concat(R"({"feature_extractor_type":"CLIPFeatureExtractor","size":)",
                                 side + 2, R"(,"crop_size":)", side, R"(,"do_center_crop":true})"),
                          true);
    const std::string core = concat("core_", tower), back = concat("back_", tower);
    convert("hf", core, "core");
    convert(core, back, "hf");
    EXPECT_EQ(open_model(scratch_.path(back))->config().image_short_side, side + 2);
    EXPECT_NE(read_file(scratch_.path(back + "/preprocessor_config.json"))
                  .find(R"("image_processor_type":"CLIPImageProcessor")"),
              std::string::npos);
  }
}

// --- What is not read ---------------------------------------------------------------------------

class HostileImageFolder : public Convert {
 protected:
  HostileImageFolder() { fs::copy(kModels + "vit", scratch_.path("hf")); }

  // The error of the folder with other words in a file of it, without its place.
  std::string changed(const std::string& file, const std::string& from, const std::string& to) {
    const std::string path = scratch_.path("hf/" + file), before = read_file(path);
    std::string text = before;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    text.replace(at, from.size(), to);
    write_file_atomically(path, text, true);
    const std::string line = refusal();
    write_file_atomically(path, before, true);
    return line;
  }
  std::string refusal() {
    std::string line = error("hf", "out", "core");
    EXPECT_FALSE(fs::exists(scratch_.path("out")));
    const std::string place = scratch_.path("hf") + "/";
    if (const std::size_t at = line.find(place); at != line.npos) line.erase(at, place.size());
    return line;
  }
};

TEST_F(HostileImageFolder, IsRefusedByName) {
  const std::string settings = "config.json", images = kImageProcessor;
  const std::string in_settings = "65 config.json: ", in_images = "65 preprocessor_config.json: ";
  EXPECT_EQ(changed(settings, "ViTForImageClassification", "ViTForMaskedImageModeling"),
            in_settings +
                "architecture \"ViTForMaskedImageModeling\" is not supported, but "
                "ViTForImageClassification and ViTModel are");
  EXPECT_EQ(changed(settings, "\"qkv_bias\": true", "\"qkv_bias\": false"),
            in_settings + "\"qkv_bias\" is false, which is not supported");
  EXPECT_EQ(changed(settings, "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"quick_gelu\""),
            in_settings + "\"hidden_act\" is \"quick_gelu\", expected \"gelu\"");
  EXPECT_EQ(changed(settings, "\"num_channels\": 3", "\"num_channels\": 4"),
            in_settings + "\"num_channels\" is 4, expected 3");
  EXPECT_EQ(changed(settings, "\"id2label\"", "\"id2label\": {}, \"other\""),
            in_settings + "\"id2label\" is empty, expected at least one class");
  EXPECT_EQ(changed(settings, "\"patch_size\": 6", "\"patch_size\": 5"),
            in_settings + "--img-h 12: not a multiple of --patch-dim 5");
  EXPECT_EQ(changed(settings, "\"image_size\": [\n    12,\n    18\n  ]", "\"image_size\": [12]"),
            in_settings + "\"image_size\": expected a number, or two of rows and columns");
  EXPECT_EQ(changed(images, "\"width\": 18", "\"width\": 24"),
            in_images + "\"size\" is 12 x 24, but \"image_size\" is 12 x 18");
  EXPECT_EQ(changed(images, "\"height\": 12,\n    \"width\": 18", "\"shortest_edge\": 12"),
            in_images +
                "\"size\" is {\"shortest_edge\":12}, expected a height and a width: images "
                "are not cut to a square");
  EXPECT_EQ(changed(images, "\"resample\": 3", "\"resample\": 1"),
            in_images + "\"resample\" is 1, expected 2, bilinear, or 3, bicubic");
  EXPECT_EQ(changed(images, "\"do_rescale\": true", "\"do_rescale\": false"),
            in_images + "\"do_rescale\" is false, which is not supported");
  EXPECT_EQ(changed(images, "0.00392156862745098", "0.0078125"),
            in_images + "\"rescale_factor\" is 0.0078125, expected 1/255");
  EXPECT_EQ(changed(images, "ViTImageProcessor", "CLIPImageProcessor"),
            in_images +
                "\"image_processor_type\" is \"CLIPImageProcessor\", expected "
                "\"ViTImageProcessor\"");
  EXPECT_EQ(changed(images, "\"resample\"", "\"crop_pct\": 0.875, \"resample\""),
            in_images + "\"crop_pct\" is not supported");
  EXPECT_EQ(changed(images, "\"resample\"", "\"do_flip_channel_order\": true, \"resample\""),
            in_images + "\"do_flip_channel_order\" is true, which is not supported");
  EXPECT_EQ(changed(settings, "\"num_channels\"",
                    "\"problem_type\": \"multi_label_classification\", \"num_channels\""),
            in_settings +
                "\"problem_type\" is \"multi_label_classification\", expected "
                "\"single_label_classification\"");
  EXPECT_EQ(changed(images, "0.48,", ""), in_images + "\"image_mean\": expected three numbers");
  EXPECT_EQ(changed(images, "0.27", "0"),
            in_settings + "--pixel-std 0,0.26,0.28: 0 divides nothing");
  fs::remove(scratch_.path("hf/" + images));
  EXPECT_EQ(refusal(), "66 preprocessor_config.json: cannot open: No such file or directory");
}

TEST_F(HostileImageFolder, OfAnInternVitIsRefusedByName) {
  fs::remove_all(scratch_.path("hf"));
  fs::copy(kModels + "internvit-rms", scratch_.path("hf"));
  const std::string settings = "config.json", in_settings = "65 config.json: ";
  EXPECT_EQ(changed(settings, "rms_norm", "layer_norm"),
            in_settings +
                "\"use_qk_norm\" is true, expected a \"norm_type\" of rms_norm and a "
                "\"layer_norm_eps\" of 1e-06 with it");
  EXPECT_EQ(changed(settings, "rms_norm", "batch_norm"),
            in_settings + "\"norm_type\" is \"batch_norm\", expected \"layer_norm\"");
  EXPECT_EQ(changed(settings, "\"projection_dropout\": 0.0", "\"projection_dropout\": 0.5"),
            in_settings + "\"projection_dropout\" is not 0, which is not supported");
  EXPECT_EQ(changed(settings, "\"use_mean_pooling\": true", "\"use_mean_pooling\": false"),
            in_settings + "\"use_mean_pooling\" is false, which is not supported");
  EXPECT_EQ(
      changed(settings, "\"patch_size\": [\n    3,\n    3", "\"patch_size\": [\n    3,\n    4"),
      in_settings + "\"patch_size\": expected a square");
  EXPECT_EQ(
      changed(settings, "\"image_size\": [\n    12,\n    12", "\"image_size\": [\n    12,\n    24"),
      in_settings + "\"image_size\": expected a square");
  EXPECT_EQ(changed(settings, "1e-06", "1e-05"),
            in_settings +
                "\"use_qk_norm\" is true, expected a \"norm_type\" of rms_norm and a "
                "\"layer_norm_eps\" of 1e-06 with it");
  for (const char* const flag : {"use_mask_token", "use_absolute_position_embeddings"}) {
    const bool usual = flag == std::string_view("use_absolute_position_embeddings");
    EXPECT_EQ(changed(settings, concat("\"", flag, "\": ", usual ? "true" : "false"),
                      concat("\"", flag, "\": ", usual ? "false" : "true")),
              concat(in_settings, "\"", flag, "\" is ", usual ? "false" : "true",
                     ", which is not supported"));
  }
  EXPECT_EQ(changed(settings, "\"hidden_dropout_prob\": 0.0", "\"hidden_dropout_prob\": 0.5"),
            in_settings + "\"hidden_dropout_prob\" is not 0, which is not supported");
  EXPECT_EQ(changed(kImageProcessor, "\"crop_to_patches\"",
                    "\"do_center_crop\": true, \"crop_to_patches\""),
            "65 preprocessor_config.json: \"do_center_crop\" is true, which is not supported");
  EXPECT_EQ(changed(kImageProcessor, "\"size\"", "\"other\""),
            "65 preprocessor_config.json: \"size\" is 384 x 384, but \"image_size\" is 12 x 12");
  EXPECT_EQ(changed(kImageProcessor, "\"crop_to_patches\": false", "\"crop_to_patches\": true"),
            "65 preprocessor_config.json: \"crop_to_patches\" is true, which is not supported");
}

// transformers norms queries and keys with an epsilon of its own.
TEST_F(Convert, AnInternVitOfAnotherEpsilonIsNoneOfTransformers) {
  ModelConfig c = open_model(kModels + "internvit-rms")->config();
  c.norm_epsilon = 1e-5;
  EXPECT_EQ(
      error_of([&] { hugging_face_config(c, DType::f32, ""); }),
      "78 an InternViT with --qk-layernorm and another --norm-epsilon than 1e-06: no model of "
      "transformers has that");
  c.qk_layernorm = c.qk_layernorm_whole = false;
  EXPECT_NE(hugging_face_config(c, DType::f32, "").find("\"layer_norm_eps\":1e-05"),
            std::string::npos);
}

// Megatron's tokens of classes, and its head.
TEST_F(Convert, AVitOfMegatronsIsNoneOfTransformers) {
  ModelConfig c;
  c.family = ModelFamily::vit;
  c.num_layers = c.num_attention_heads = 1;
  c.hidden_size = c.vocab_size = c.padded_vocab_size = c.num_classes = 4;
  c.max_position_embeddings = c.image_tokens();
  const auto refused = [&] {
    c.complete();
    return error_of([&] { hugging_face_config(c, DType::f32, ""); });
  };
  EXPECT_EQ(refused(), "78 --class-token-len 8: no model of transformers has that");
  c.class_token_len = 1;
  EXPECT_EQ(refused(), "78 --vision-head mlp: no model of transformers has that");
  c.vision_head = "linear";
  c.bias_gelu_fusion = false;
  c.squared_relu = true;
  EXPECT_EQ(refused(), "78 a ViT without GeLU: no model of transformers has that");
  c.squared_relu = false;
  EXPECT_NE(hugging_face_config(c, DType::f32, "").find("ViTForImageClassification"),
            std::string::npos);
}

}  // namespace
}  // namespace mt
