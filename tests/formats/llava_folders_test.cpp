// LLaVAs and InternVLs as transformers saved them (scripts/make-llava-goldens.py): what they make
// of texts with images, their gradients, and the folder that is written of them.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>

#include "base/json_object.h"
#include "formats/model_sink.h"
#include "formats/names/hugging_face.h"
#include "image/image.h"
#include "model/families/llava.h"
#include "model/image_tiles.h"
#include "model/model.h"
#include "model/model_table.h"
#include "tests/formats/convert_support.h"
#include "tests/support/workbench.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

using Numbers = std::vector<std::int32_t>;

const std::string kModels = std::string(MT_TESTDATA) + "/models/";

Tensor as_tensor(Numbers& numbers) {
  return {numbers.data(), DType::i32, {std::ssize(numbers)}, Device::cpu};
}

template <class T>
std::vector<T> list(const JsonObject& line, const char* name) {
  std::vector<T> numbers;
  for (const simdjson::dom::element number : line.member(name).get_array())
    numbers.push_back(static_cast<T>(number.get_double()));
  return numbers;
}

// A line of the goldens: a model, a text, and its images.
struct Case {
  explicit Case(const JsonObject& line)
      : source(open_model(concat(kModels, line.text("folder")))),
        ids(list<std::int32_t>(line, "ids")),
        rows(list<std::int32_t>(line, "rows")),
        image_rows(mt::image_rows(source->config(), ids)) {
    const ModelConfig& c = source->config();
    for (const simdjson::dom::element image : line.member("images").get_array()) {
      const std::string path = concat(MT_TESTDATA, "/images/", image.get_string().value());
      const Image read = read_image(path);
      const std::int64_t tiles = grid_of(c, {read.width, read.height}).tiles();
      const auto numbers = static_cast<std::size_t>(tiles * tile_input_size(c));
      pixels.resize(pixels.size() + numbers);
      make_tile_inputs(c, read, std::span(pixels).last(numbers));
      places.resize(places.size() + static_cast<std::size_t>(tiles * c.image_tokens()));
    }
    fill_places(c, places);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const bool last = i + 1 == ids.size(), learnt = !last && image_rows[i + 1] < 0;
      labels.push_back(last ? 0 : ids[i + 1]);
      weights.push_back(learnt ? 1 : 0);
    }
    const auto learnt = static_cast<float>(std::ranges::count(weights, 1.F));
    for (float& weight : weights) weight /= learnt;
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (image_rows[i] >= 0) ids[i] = -1;
  }
  Fields batch() {
    Fields fields;
    fields[Field::ids] = as_tensor(ids);
    fields[Field::labels] = as_tensor(labels);
    fields[Field::rows] = as_tensor(rows);
    if (pixels.empty()) return fields;
    fields[Field::image_rows] = as_tensor(image_rows);
    fields[Field::encoder_positions] = as_tensor(places);
    fields[Field::pixels] = {pixels.data(), DType::f32, {std::ssize(pixels)}};
    return fields;
  }

  std::unique_ptr<ModelSource> source;
  Numbers ids, rows, image_rows, places, labels;
  std::vector<float> pixels, weights;
};

std::unique_ptr<Model> loaded(const ModelSource& source, bool with_gradients) {
  auto model = make_model(source.config(), {{.end = source.config().num_layers}});
  model->table().allocate(Device::cpu, DType::f32, with_gradients);
  for (const Param& row : model->table().rows()) source.read(row, "", row.value);
  source.check_all_used(model->table());
  return model;
}

void for_each_case(const std::function<void(const JsonObject&, Case&)>& body) {
  std::ifstream file(kModels + "llava.jsonl");
  simdjson::dom::parser parser;
  int cases = 0;
  for (std::string text; std::getline(file, text);) {
    const JsonObject line(parser.parse(text), "llava.jsonl");
    if (!line.has("folder")) continue;
    Case one(line);
    body(line, one);
    ++cases;
  }
  EXPECT_EQ(cases, 12);
}

TEST(LlavaFolders, SayWhatTransformersDoes) {
  for_each_case([](const JsonObject& line, Case& one) {
    const auto model = loaded(*one.source, false);
    Workbench bench({.dtype = DType::f32,
                     .sequences = 1,
                     .seq_length = std::ssize(one.ids),
                     .training = false});
    const std::int64_t vocab = model->config().vocab_size, asked = std::ssize(one.rows);
    std::vector<float> logits(static_cast<std::size_t>(asked * vocab));
    const Fields batch = one.batch();
    Step s = bench.step();
    Wire out;
    model->forward(s, out, {}, batch,
                   {.rows = batch[Field::rows],
                    .vocab = vocab,
                    .logits = {logits.data(), DType::f32, {asked, vocab}}},
                   nullptr);
    bench.stream().synchronize();
    auto at = logits.begin();
    for (const simdjson::dom::element row : line.member("logits").get_array())
      for (const simdjson::dom::element number : row.get_array())
        EXPECT_NEAR(double{*at++}, number.get_double().value(), 1e-5) << line.text("text");
    EXPECT_EQ(at, logits.end());
  });
}

// Of each tensor of theirs the norm of its gradient and the first three numbers; those that have no
// gradient there have none here.
void expect_gradients(const Model& model, const JsonObject& line) {
  const JsonObject expected = line.object("gradients");
  std::size_t compared = 0;
  for (const Param& row : model.table().rows())
    for (const ForeignName& name : hugging_face_names(model.config(), row)) {
      std::string theirs = name.name;
      for (const auto& [ours, other] :
           {std::pair("language_model.model.", "model.language_model."),
            std::pair("language_model.lm_head.", "lm_head."),
            std::pair("vision_tower.", "model.vision_tower."),
            std::pair("multi_modal_projector.", "model.multi_modal_projector.")})
        if (theirs.starts_with(ours)) {
          theirs.replace(0, std::string_view(ours).size(), other);
          break;
        }
      if (!expected.has(theirs)) {
        if (!row.trainable) continue;
        double most = 0;
        for (const float x : row.grad.span<float>()) most = std::max(most, std::abs(double{x}));
        EXPECT_LT(most, 1e-6) << theirs;
        continue;
      }
      const ForeignValue value(row, name, row.grad, model.config().vocab_size);
      const auto numbers = value.tensor().span<float>();
      double squares = 0;
      for (const float x : numbers) squares += double{x} * double{x};
      const std::vector<double> of_theirs = list<double>(expected, theirs.c_str());
      EXPECT_NEAR(std::sqrt(squares), of_theirs[0], 1e-5) << theirs;
      for (std::size_t i = 0; i < 3; ++i)
        EXPECT_NEAR(double{numbers[i]}, of_theirs[i + 1], 1e-5) << theirs;
      ++compared;
    }
  EXPECT_EQ(compared, expected.names().size());
}

TEST(LlavaFolders, HaveTheGradientsOfTransformers) {
  for_each_case([](const JsonObject& line, Case& one) {
    const auto model = loaded(*one.source, true);
    const std::int64_t tokens = std::ssize(one.ids);
    Workbench bench({.dtype = DType::f32, .sequences = 1, .seq_length = tokens});
    std::vector<float> losses(static_cast<std::size_t>(tokens));
    for (Param& row : model->table().rows())
      if (row.trainable) fill_with(row.grad, [](std::int64_t) { return 0; });
    const Fields batch = one.batch();
    const auto saved = model->make_saved();
    Step s = bench.step();
    Wire none;
    model->forward(s, none, {}, batch,
                   {.loss = {losses.data(), DType::f32, {tokens}},
                    .weight = Tensor(one.weights.data(), DType::f32, {tokens})},
                   saved.get());
    Step back = bench.step();
    Wire din;
    model->backward(back, din, {}, *saved);
    bench.run_weight_grads();
    bench.stream().synchronize();
    double loss = 0;
    for (std::size_t i = 0; i < losses.size(); ++i)
      loss += double{losses[i]} * double{one.weights[i]};
    EXPECT_NEAR(loss, line.real("loss"), 1e-5);
    expect_gradients(*model, line);
  });
}

// --- Conversion ---------------------------------------------------------------------------------

class LlavaFolder : public Convert, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Of, LlavaFolder,
                         testing::Values("llava", "llava-siglip", "internvl", "internvl-rms"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '-');
                           return name;
                         });

// All tensors with their types, under the names of transformers 5, and all settings.
TEST_P(LlavaFolder, IsWrittenAsItWasRead) {
  fs::copy(kModels + GetParam(), scratch_.path("hf"));
  ConvertOptions options;
  options.verify = true;
  options.ckpt_format = "torch_dcp";
  convert("hf", "dcp", "core", options);
  options.ckpt_format = "torch_dist";
  convert("dcp", "core", "core", options);
  convert("core", "back", "hf");
  const auto theirs = open_model(scratch_.path("hf")), ours = open_model(scratch_.path("back"));
  EXPECT_EQ(differing_setting(ours->config(), theirs->config()), nullptr);
  EXPECT_EQ(ours->config().image_short_side, theirs->config().image_short_side);
  const auto processor = [&](const char* file) {
    simdjson::dom::parser parser;
    const JsonObject json(parser.parse(content(file)), file);
    return std::string(json.object("image_processor").text("image_processor_type"));
  };
  EXPECT_EQ(processor("back/processor_config.json"), processor("hf/processor_config.json"));
  const SafetensorsReader before(scratch_.path("hf/model.safetensors")),
      after(scratch_.path("back/model.safetensors"));
  EXPECT_EQ(before.tensors().size(), after.tensors().size());
  for (const auto& [key, tensor] : before.tensors()) {
    ASSERT_EQ(after.at(key).shape, tensor.shape) << key;
    EXPECT_EQ(after.at(key).dtype, tensor.dtype) << key;
    const HostTensor a(DType::bf16, tensor.shape), b(DType::bf16, tensor.shape);
    before.read_original(key, origin_of(tensor.shape.rank()), a);
    after.read_original(key, origin_of(tensor.shape.rank()), b);
    EXPECT_SAME_BITS(a.view(), b.view()) << key;
  }
}

// GotOcr2ImageProcessor's means and its side of 384, of which the model's is another.
TEST_F(Convert, AnInternVlWhoseProcessorSaysNothingHasTheMeansOfItsKind) {
  fs::copy(kModels + "internvl", scratch_.path("hf"));
  const std::string path = scratch_.path("hf/processor_config.json");
  const auto say = [&](const char* processor) {
    write_file_atomically(path, concat("{\"image_processor\":", processor, "}\n"), true);
  };
  say(R"({"size": {"height": 12, "width": 12}})");
  const auto source = open_model(scratch_.path("hf"));
  EXPECT_EQ(source->config().pixel_mean, "0.48145466,0.4578275,0.40821073");
  EXPECT_EQ(source->config().pixel_std, "0.26862954,0.26130258,0.27577711");
  say("{}");
  EXPECT_NE(error("hf", "out", "core").find("\"size\" is 384 x 384"), std::string::npos);
}

// By the settings alone: of each a model is drawn, and goes there and back.
TEST_F(Convert, ALlavaHasOneOfSeveralLanguageModels) {
  for (const std::string type :
       {"llama", "mistral", "qwen2", "qwen3", "phi3", "gemma", "olmo2", "smollm3"}) {
    const std::string folder = "of_" + type;
    fs::copy(kModels + "llava", scratch_.path(folder));
    const std::string path = scratch_.path(folder + "/config.json");
    std::string text = read_file(path);
    const std::string was = "\"model_type\": \"llama\"";
    text.replace(text.find(was), was.size(), concat("\"model_type\": \"", type, "\""));
    if (type == "gemma") text.replace(text.find("silu"), 4, "gelu");
    write_file_atomically(path, text, true);
    ConvertOptions options;
    options.mock = true;
    convert(folder, "core_" + type, "core", options);
    convert("core_" + type, "hf_" + type, "hf");
    const auto drawn = open_model(scratch_.path("core_" + type)),
               back = open_model(scratch_.path("hf_" + type));
    EXPECT_EQ(differing_setting(drawn->config(), back->config()), nullptr) << type;
    back->check_all_used(model_rows(back->config()));
    EXPECT_NE(content("hf_" + type + "/config.json").find(concat("\"model_type\":\"", type, "\"")),
              std::string::npos);
  }
}

// A part that does not say what it is is what transformers' LlavaConfig takes it for.
TEST_F(Convert, PartsOfALlavaNeedNotSayWhatTheyAre) {
  fs::copy(kModels + "llava", scratch_.path("hf"));
  const ModelConfig before = open_model(scratch_.path("hf"))->config();
  std::string text = content("hf/config.json");
  for (const std::string was :
       {"\"model_type\": \"llama\",", "\"model_type\": \"clip_vision_model\","})
    text.erase(text.find(was), was.size());
  write_file_atomically(scratch_.path("hf/config.json"), text, true);
  EXPECT_EQ(differing_setting(open_model(scratch_.path("hf"))->config(), before), nullptr);
}

// As in transformers 5; one that says nothing of images leaves them to the other file.
TEST_F(Convert, WhatAProcessorSaysOfImagesGoesBeforeTheirOwnFile) {
  fs::copy(kModels + "llava-siglip", scratch_.path("hf"));
  const auto mean = [&](const char* joint, const char* alone) {
    for (const auto& [file, said] :
         {std::pair("processor_config.json", joint), {"preprocessor_config.json", alone}})
      write_file_atomically(scratch_.path(concat("hf/", file)), said, true);
    return open_model(scratch_.path("hf"))->config().pixel_mean;
  };
  const char* const said = R"({"image_mean":[0.25,0.5,0.75],"size":{"height":14,"width":14}})";
  EXPECT_EQ(mean(R"({"image_processor":{"image_mean":[0,0,1],"size":14}})", said), "0,0,1");
  EXPECT_EQ(mean(R"({"patch_size":4})", said), "0.25,0.5,0.75");
}

// Of videos both forms of transformers travel, by way of Megatron's format.
TEST_F(Convert, WhatAnInternVlsProcessorSaysOfVideosTravels) {
  fs::copy(kModels + "internvl", scratch_.path("hf"));
  const auto travelled = [&](const std::string& core, const std::string& back) {
    convert("hf", core, "core");
    convert(core, back, "hf");
    simdjson::dom::parser parser;
    const JsonObject json(parser.parse(content(back + "/video_preprocessor_config.json")), "video");
    return std::string(json.text("video_processor_type"));
  };
  EXPECT_EQ(travelled("core", "back"),
            "InternVLVideoProcessor");  // a part of processor_config.json
  std::string joint = content("hf/processor_config.json");
  const std::string was = "\"video_processor\"";
  joint.replace(joint.find(was), was.size(), "\"other\"");
  write_file_atomically(scratch_.path("hf/processor_config.json"), joint, true);
  write_file_atomically(scratch_.path("hf/video_preprocessor_config.json"),
                        R"({"video_processor_type":"Another"})", true);
  EXPECT_EQ(travelled("core2", "back2"), "Another");
}

// As transformers 4 called them, and as 5 calls them in memory.
TEST_F(Convert, ALlavaIsReadUnderOtherNames) {
  const SafetensorsReader stored(kModels + "llava/model.safetensors");
  for (const bool old : {true, false}) {
    const std::string folder = old ? "old" : "new";
    fs::copy(kModels + "llava", scratch_.path(folder));
    fs::remove(scratch_.path(folder + "/model.safetensors"));
    const auto renamed = [&](std::string key) {
      if (key.starts_with("vision_tower."))
        return old ? key.replace(0, 13, "vision_tower.vision_model.") : "model." + key;
      if (old) return key;
      if (key.starts_with("language_model.model."))
        return key.replace(0, 21, "model.language_model.");
      return key.starts_with("language_model.") ? key.substr(15) : "model." + key;
    };
    std::vector<SafetensorsWriter::Entry> entries;
    for (const auto& [key, tensor] : stored.tensors())
      entries.push_back({renamed(key), *tensor.dtype, tensor.shape});
    SafetensorsWriter writer(scratch_.path(folder), entries, 1 << 30);
    for (const auto& [key, tensor] : stored.tensors()) {
      const HostTensor value(*tensor.dtype, tensor.shape);
      stored.read_original(key, origin_of(tensor.shape.rank()), value);
      writer.write(renamed(key), value.view());
    }
    writer.close();
    convert(folder, "of_" + folder, "hf", {});
  }
  fs::copy(kModels + "llava", scratch_.path("hf"));
  convert("hf", "of_hf", "hf", {});
  for (const char* const same : {"of_old", "of_new"})
    EXPECT_EQ(content(concat(same, "/model.safetensors")), content("of_hf/model.safetensors"));
}

class ChangedFolder : public Convert {
 protected:
  // What is said of the folder "hf" with other text in one of its files.
  std::string changed(const std::string& file, const std::string& from, const std::string& to) {
    const std::string path = scratch_.path("hf/" + file), before = read_file(path);
    std::string text = before;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    text.replace(at, from.size(), to);
    write_file_atomically(path, text, true);
    std::string line = error("hf", "out", "core");
    write_file_atomically(path, before, true);
    const std::string place = scratch_.path("hf") + "/";
    if (const std::size_t start = line.find(place); start != line.npos)
      line.erase(start, place.size());
    return line;
  }
};

TEST_F(ChangedFolder, OfALlavaRefusesByNameWhatItHasNot) {
  fs::copy(kModels + "llava", scratch_.path("hf"));
  const std::string settings = "config.json", images = "processor_config.json";
  EXPECT_EQ(changed(settings, "clip_vision_model", "pixtral"),
            "65 config.json: vision_config: model_type \"pixtral\" is not supported in a llava; "
            "expected clip_vision_model or siglip_vision_model");
  EXPECT_EQ(
      changed(settings, "\"model_type\": \"llama\"", "\"model_type\": \"granite\""),
      "65 config.json: text_config: model_type \"granite\" is not supported in a llava; expected "
      "llama, mistral, qwen2, qwen3, phi3, gemma, olmo2 or smollm3");
  EXPECT_EQ(
      changed(settings, "\"model_type\": \"llava\"",
              "\"mm_vision_tower\": \"openai/clip\", \"model_type\": \"llava\""),
      "65 config.json: model_type \"llava\" with an \"mm_vision_tower\" is a LLaVA in the form "
      "of its makers; transformers' own is read, llava with a \"vision_config\"");
  EXPECT_EQ(changed(settings, "\"model_type\": \"llava\"", "\"model_type\": \"vipllava\""),
            "65 config.json: model_type \"vipllava\" reads hidden states of several layers of its "
            "tower, which is not supported; llava is");
  EXPECT_EQ(changed(settings, "\"vision_feature_layer\": -2", "\"vision_feature_layer\": [-2, 1]"),
            "65 config.json: \"vision_feature_layer\": one layer is supported, not several");
  EXPECT_EQ(changed(settings, "\"vision_feature_layer\": -2", "\"vision_feature_layer\": -5"),
            "65 config.json: --vision-feature-layer -5: of 3 layers");
  EXPECT_EQ(
      changed(settings, "\"projector_hidden_act\": \"gelu\"", "\"projector_hidden_act\": \"relu\""),
      "65 config.json: \"projector_hidden_act\" is \"relu\", expected \"gelu\"");
  EXPECT_EQ(changed(settings, "\"image_token_index\": 259", "\"image_token_index\": 260"),
            "65 config.json: --image-token-index 260: the model knows 260 tokens");
  EXPECT_EQ(changed(settings, "LlavaForConditionalGeneration", "LlavaModel"),
            "65 config.json: architecture \"LlavaModel\" is not supported, but "
            "LlavaForConditionalGeneration is");
  EXPECT_EQ(changed(images, "\"shortest_edge\": 15", "\"shortest_edge\": 10"),
            "65 processor_config.json: image_processor: \"size\" is of a shortest edge of 10, less "
            "than \"crop_size\": what would be lacking is not added");
  EXPECT_EQ(
      changed(images, "\"do_resize\": true", "\"do_resize\": true, \"do_pad\": true"),
      "65 processor_config.json: image_processor: \"do_pad\" is true, which is not supported");
  EXPECT_EQ(changed(images, "CLIPImageProcessor", "PixtralImageProcessor"),
            "65 processor_config.json: image_processor: \"image_processor_type\" is "
            "\"PixtralImageProcessor\", expected \"CLIPImageProcessor\"");
  fs::remove(scratch_.path("hf/" + images));
  EXPECT_EQ(error("hf", "out", "core").substr(0, 2), "66");
}

TEST_F(ChangedFolder, OfAnInternVlRefusesByNameWhatItHasNot) {
  fs::copy(kModels + "internvl", scratch_.path("hf"));
  const std::string settings = "config.json", images = "processor_config.json";
  EXPECT_EQ(changed(settings, "\"downsample_ratio\": 0.5", "\"downsample_ratio\": 0.25"),
            "65 config.json: \"downsample_ratio\" is not 0.5, which is not supported");
  EXPECT_EQ(changed(settings, "internvl_vision", "clip_vision_model"),
            "65 config.json: vision_config: model_type \"clip_vision_model\" is not supported in a "
            "internvl; expected internvl_vision");
  EXPECT_EQ(changed(images, "\"min_patches\": 1", "\"min_patches\": 2"),
            "65 processor_config.json: image_processor: \"min_patches\" is not 1, which is not "
            "supported");
  EXPECT_EQ(changed(images, "\"max_patches\": 4", "\"max_patches\": 0"),
            "65 processor_config.json: image_processor: \"max_patches\" is 0, expected 1 to 128");
  EXPECT_EQ(changed(images, "\"image_seq_length\": 4", "\"image_seq_length\": 256"),
            "65 processor_config.json: \"image_seq_length\" is 256, expected the 4 tokens of a "
            "tile");
  EXPECT_EQ(changed("tokenizer_config.json", "\"start_image_token\": \"<img>\"",
                    "\"start_image_token\": \"<s>\""),
            "65 tokenizer_config.json: \"start_image_token\" is \"<s>\", expected <img>");
}

// Four of a tile's seventeen tokens become rows.
TEST(LlavaFolders, FlopsCountTheRowsThatAreProjected) {
  const auto source = open_model(kModels + "internvl");
  const ModelConfig& c = source->config();
  const double layers = 6 * 1792 + 6 * 17 * 16, of_row = 6 * (16 * 64 + 16 * 16);
  EXPECT_DOUBLE_EQ(model_flops(c, 1, {.tokens = 0, .encoder = 34}),
                   34 * (3 * layers) + 2 * 4 * of_row);
}

// Two layers of 1920 weights over seven tokens, and a head; over two images of five tokens two of
// the tower's three layers, of 1792, and a projector of 512.
TEST(LlavaFolders, FlopsCountTheTowerThatRuns) {
  const auto source = open_model(kModels + "llava");
  const ModelConfig& c = source->config();
  const double language = 2 * (6 * 1920 + 6 * 7 * 16) +
                          6 * 16.0 * static_cast<double>(c.padded_vocab_size),
               image = 2 * (6 * 1792 + 6 * 5 * 16) + 6 * 512;
  EXPECT_DOUBLE_EQ(model_flops(c, 3, {.tokens = 7, .encoder = 10}),
                   3 * (7 * language + 10 * image));
}

// Of a step, a third is the forward, a third gradients of what matrices read, a third their own.
TEST(LlavaFolders, FlopsOfWhatIsFrozenHaveNoGradients) {
  const auto source = open_model(kModels + "llava");
  const ModelConfig& c = source->config();
  const double words = 16.0 * static_cast<double>(c.padded_vocab_size), language = 2 * 1920 + words;
  const auto flops = [&](const std::function<bool(LlavaPart)>& is_frozen) {
    ParamTable rows = model_rows(c);
    rows.freeze(
        [&](const RowPlace& place) { return is_idle(c, place) || is_frozen(llava_part(place)); });
    return model_flops(c, rows, 3, {.tokens = 7, .encoder = 10});
  };
  const double attention = 7 * 2 * (6 * 7 * 16), seen = 10 * 2 * (6 * 5 * 16);
  EXPECT_DOUBLE_EQ(flops([](LlavaPart part) { return part == LlavaPart::language; }),
                   3 * (7 * 4 * language + attention + 10 * 6 * (2 * 1792 + 512) + seen));
  // The tower runs forward alone, and of the projector's two matrices, of 256 each, the first reads
  // what nothing learns of.
  EXPECT_DOUBLE_EQ(
      flops([](LlavaPart part) { return part == LlavaPart::tower; }),
      3 * (7 * 6 * language + attention + 10 * (2 * 2 * 1792 + (4 + 6) * 256) + seen / 3));
  EXPECT_DOUBLE_EQ(
      flops([](LlavaPart part) { return part != LlavaPart::projector; }),
      3 * (7 * 4 * language + attention + 10 * (2 * 2 * 1792 + (4 + 6) * 256) + seen / 3));
}

}  // namespace
}  // namespace mt
