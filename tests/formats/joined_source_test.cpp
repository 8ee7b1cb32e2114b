// What becomes of a language model and a tower of images that are joined.
#include <gtest/gtest.h>

#include <simdjson.h>

#include <cmath>
#include <fstream>

#include "base/json_object.h"
#include "formats/joined_source.h"
#include "image/image.h"
#include "model/families/llava.h"
#include "model/image_input.h"
#include "ops/ops.h"
#include "tests/formats/convert_support.h"
#include "tests/support/workbench.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

const std::string kModels = std::string(MT_TESTDATA) + "/models/";

// A tiny Llama that knows bytes and a word for images, in the folder "language".
class Joins : public Convert {
 protected:
  Joins() {
    fs::create_directory(scratch_.path("settings"));
    for (const char* const file : {"tokenizer.json", "tokenizer_config.json"})
      fs::copy(concat(kModels, "llava/", file), scratch_.path(concat("settings/", file)));
    write_file_atomically(
        scratch_.path("settings/config.json"),
        R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":260,)"
        R"("hidden_size":32,"num_hidden_layers":1,"num_attention_heads":2,"intermediate_size":48})",
        false);
    ConvertOptions options;
    options.mock = true;
    convert("settings", "language", "hf", options);
  }

  std::unique_ptr<ModelSource> joined(const std::string& tower, JoinOptions options = {}) const {
    options.image_token = "<image>";
    return std::make_unique<JoinedSource>(open_model(scratch_.path("language")),
                                          open_model(kModels + tower), options);
  }

  void join(const std::string& tower, const std::string& to, const JoinOptions& options) {
    ConvertOptions o;
    o.vision_tower = kModels + tower;
    o.join = options;
    o.verify = true;
    convert("language", to, "core", o);
  }
};

// The last hidden states of the joint model's tower.
std::vector<float> hidden_states(const ModelSource& joint, const std::string& image) {
  const ModelConfig c = tower_config(joint.config());
  Vit model(c, StageRanges{{.begin = 0, .end = c.num_layers}});
  model.table().allocate(Device::cpu, DType::f32, false);
  const ParamTable rows = model_rows(joint.config());
  for (const Param& row : rows.rows()) {
    if (llava_part(row.place) != LlavaPart::tower) continue;
    const auto& own = model.table().rows();
    const auto found = std::ranges::find(own, place_in_part(row.place), &Param::place);
    if (found != own.end()) joint.read(row, "", found->value);
  }
  const std::int64_t tokens = c.image_tokens();
  std::vector<float> pixels(static_cast<std::size_t>(tokens * c.patch_width()));
  make_image_input(c, read_image(concat(MT_TESTDATA, "/images/", image)), pixels);
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < tokens; ++i) ids.push_back(i);
  Fields batch;
  batch[Field::pixels] = {pixels.data(), DType::f32, {std::ssize(pixels)}};
  batch[Field::ids] = {ids.data(), DType::i32, {tokens}};
  std::vector<float> numbers(static_cast<std::size_t>(tokens * c.hidden_size));
  Ends ends;
  ends.hidden = Tensor(numbers.data(), DType::f32, {tokens, c.hidden_size});
  Workbench bench({.dtype = DType::f32, .sequences = 1, .seq_length = tokens, .training = false});
  Step s = bench.step();
  Wire out;
  model.forward(s, out, {}, batch, ends, nullptr);
  bench.stream().synchronize();
  return numbers;
}

// That of a RADIO by positions that are resized to its images.
TEST_F(Joins, HasTheTowersHiddenStates) {
  std::ifstream file(kModels + "towers.jsonl");
  simdjson::dom::parser parser;
  int compared = 0;
  for (std::string text; std::getline(file, text);) {
    const JsonObject line(parser.parse(text), "towers.jsonl");
    if (!line.has("image") || line.text("folder") == "clip") continue;  // whose norm is not run
    const auto joint = joined(std::string(line.text("folder")));
    const std::vector<float> numbers = hidden_states(*joint, std::string(line.text("image")));
    const simdjson::dom::array expected = line.member("numbers").get_array();
    ASSERT_EQ(numbers.size(), expected.size());
    double largest = 1;
    for (const float number : numbers) largest = std::max(largest, std::abs(double{number}));
    auto at = numbers.begin();
    for (const simdjson::dom::element number : expected)
      EXPECT_NEAR(double{*at++}, number.get_double().value(), 1e-6 * largest)
          << line.text("folder");
    ++compared;
  }
  EXPECT_EQ(compared, 15);
}

TEST_F(Joins, UsesTowersAsTheirKindsAre) {
  struct Use {
    const char *tower, *strategy;
    std::int64_t layer;
    bool shuffles;
    const char* projector;
  };
  for (const Use& use : {Use{"clip", "default", -2, false, "none"},
                         {"siglip", "full", -2, false, "none"},
                         {"internvit", "default", -1, true, "LayerNorm"},
                         {"radio", "default", -1, false, "none"}}) {
    const auto joint = joined(use.tower);
    const ModelConfig& c = joint->config();
    EXPECT_EQ(c.family, ModelFamily::llava) << use.tower;
    EXPECT_EQ(c.vision_feature_select_strategy, use.strategy) << use.tower;
    EXPECT_EQ(c.vision_feature_layer, use.layer) << use.tower;
    EXPECT_EQ(c.pixel_shuffle, use.shuffles) << use.tower;
    EXPECT_EQ(c.projector_normalization, use.projector) << use.tower;
  }
  const auto radio = joined("radio", {.feature_layer = -2, .pixel_shuffle = true});
  EXPECT_EQ(radio->config().tower_layers(), 3);
  EXPECT_EQ(first_feature(radio->config()), 5);  // behind three tokens of classes and two registers
}

TEST_F(Joins, DrawsTheProjectorByTheSeed) {
  const auto values = [&](std::uint64_t seed) {
    const auto joint = joined("clip", {.seed = seed});
    std::vector<float> all;
    const ParamTable rows = model_rows(joint->config());
    for (const Param& row : rows.rows()) {
      if (llava_part(row.place) != LlavaPart::projector) continue;
      const HostTensor value(DType::f32, row.shape);
      joint->read(row, "", value);
      const auto numbers = value.view().span<float>();
      all.insert(all.end(), numbers.begin(), numbers.end());
    }
    return all;
  };
  EXPECT_EQ(values(1), values(1));
  EXPECT_NE(values(1), values(2));
  EXPECT_GT(std::ranges::count_if(values(1), [](float x) { return x != 0; }), 100);
}

// As a folder of transformers' of which nothing is lost, and as one of Megatron's.
TEST_F(Joins, AreLlavasInBothFormats) {
  for (const char* const tower : {"clip", "siglip", "internvit"}) {
    join(tower, concat("core_", tower), {.image_token = "<image>"});
    convert(concat("core_", tower), concat("hf_", tower), "hf");
    const auto core = open_model(scratch_.path(concat("core_", tower))),
               hf = open_model(scratch_.path(concat("hf_", tower)));
    EXPECT_EQ(differing_setting(core->config(), hf->config()), nullptr) << tower;
    hf->check_all_used(model_rows(hf->config()));
  }
}

TEST_F(Joins, OfARadioAreMegatronsAlone) {
  join("radio-swiglu", "core", {.pixel_shuffle = true});
  const auto core = open_model(scratch_.path("core"));
  EXPECT_EQ(core->config().max_img_size, 0);
  EXPECT_EQ(core->config().vision_activation, "swiglu");
  EXPECT_EQ(error("core", "hf", "hf"),
            "78 a LLaVA with a RADIO: no model of transformers has that");
}

TEST_F(Joins, RefuseWhatDoesNotFit) {
  const auto refusal = [&](const char* language, const char* tower, const char* word) {
    ConvertOptions options;
    options.vision_tower = kModels + tower;
    options.join.image_token = word;
    std::string line = error(language, "out", "core", options);
    for (const std::string& place : {kModels, scratch_.path("")})
      for (std::size_t at = 0; (at = line.find(place)) != line.npos;) line.erase(at, place.size());
    return line;
  };
  fs::copy(kModels + "t5", scratch_.path("t5"));
  EXPECT_EQ(refusal("t5", "clip", "<image>"),
            "78 --vision-tower: t5 is no GPT, and of a LLaVA the language model is a GPT such as "
            "Llama");
  for (const char* const other : {"llama", "vit"})
    EXPECT_EQ(refusal("language", other, "<image>"),
              concat("78 --vision-tower ", other,
                     ": is no tower of images (CLIP, SigLIP, InternViT, RADIO)"));
  EXPECT_EQ(refusal("language", "clip", "<picture>"),
            "78 --image-token <picture>: is 9 tokens of language, expected one that texts do not "
            "use, as --image-token names it");
  fs::copy(kModels + "llama", scratch_.path("wordless"));
  EXPECT_EQ(refusal("wordless", "clip", "<image>"),
            "78 --vision-tower: wordless has no tokenizer that is read, of which a token is to "
            "stand for an image");
  EXPECT_FALSE(fs::exists(scratch_.path("out")));
}

}  // namespace
}  // namespace mt
