// Scales of caches in folders of Hugging Face's, by the names that these have.
#include "formats/hugging_face/cache_scales.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "ckpt/safetensors.h"
#include "tests/formats/convert_support.h"

namespace mt {
namespace {

struct CacheScalesOf : Convert {
  std::vector<CacheScales> of(const std::vector<std::pair<std::string, float>>& tensors,
                              const Shape& shape = {1}) {
    ModelConfig config = config_named("llama");
    config.num_layers = 12;
    return of(config, tensors, shape);
  }
  std::vector<CacheScales> of(const ModelConfig& config,
                              const std::vector<std::pair<std::string, float>>& tensors,
                              const Shape& shape = {1}) {
    std::filesystem::remove_all(scratch_.path("folder"));
    std::filesystem::create_directory(scratch_.path("folder"));
    File::create(scratch_.path("folder/config.json")).write(std::string("{}"));
    std::vector<SafetensorsWriter::Entry> entries;
    for (const auto& [name, value] : tensors) entries.push_back({name, DType::f32, shape});
    SafetensorsWriter writer(scratch_.path("folder"), entries, "model.safetensors");
    for (const auto& [name, value] : tensors) {
      const HostTensor tensor(DType::f32, shape);
      std::fill_n(tensor.view().as<float>(), shape.numel(), value);
      writer.write(name, tensor.view());
    }
    writer.close();
    return cache_scales_in(scratch_.path("folder"), config);
  }
};

TEST_F(CacheScalesOf, FoldersOfThreeKinds) {
  const auto scales = of({{"model.layers.0.self_attn.k_proj.k_scale", 0.5F},
                          {"model.layers.0.self_attn.v_proj.v_scale", 2},
                          {"model.layers.2.self_attn.k_scale", 3},
                          {"model.layers.3.self_attn.attn.v_scale", 4},
                          {"model.layers.9.mlp.k_scale", 5},
                          {"model.layers.x.self_attn.k_scale", 6},
                          {"vision_tower.encoder.layers.1.self_attn.k_scale", 8},
                          {"model.layers.1.self_attn.k_proj.weight_scale", 7}});
  ASSERT_EQ(scales.size(), 4U);
  const float expected[][2] = {{0.5, 2}, {1, 1}, {3, 1}, {1, 4}};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(scales[i].keys, expected[i][0]) << i;
    EXPECT_EQ(scales[i].values, expected[i][1]) << i;
  }
  EXPECT_EQ(of({{"x", 1}}).size(), 0U);
  EXPECT_EQ(cache_scales_in(scratch_.path("none"), config_named("llama")).size(), 0U);
}

// Layer 11 is none of layer 1's, whose names have no beginning or another one here.
TEST_F(CacheScalesOf, NamesMayHaveOtherBeginnings) {
  for (const std::string begin : {"", "language_model.model."}) {
    const auto scales = of({{begin + "layers.11.self_attn.k_scale", 0.5F}});
    ASSERT_EQ(scales.size(), 12U);
    EXPECT_EQ(scales[1].keys, 1);
    EXPECT_EQ(scales[11].keys, 0.5F);
  }
}

// Two of its layers may be one of the folder's, and attention may be called a mixer.
TEST_F(CacheScalesOf, LayersOfHybridsAreTheModels) {
  const auto granite =
      of(config_named("granitemoehybrid"), {{"model.layers.1.self_attn.k_proj.k_scale", 0.5F},
                                            {"model.layers.1.self_attn.v_proj.v_scale", 2}});
  ASSERT_EQ(granite.size(), 3U);
  EXPECT_EQ(granite[1].keys, 1);
  EXPECT_EQ(granite[2].keys, 0.5F);
  EXPECT_EQ(granite[2].values, 2);
  const auto nemotron = of(config_named("hybrid"), {{"backbone.layers.4.mixer.k_proj.k_scale", 3}});
  ASSERT_EQ(nemotron.size(), 5U);
  EXPECT_EQ(nemotron[4].keys, 3);
}

TEST_F(CacheScalesOf, WhatScalesNothingIsRefused) {
  const std::string name = "model.layers.0.self_attn.k_scale";
  for (const float wrong : {0.F, -1.F, std::numeric_limits<float>::infinity()})
    EXPECT_NE(error_of([&] { of({{name, wrong}}); }).find(name + " is "), std::string::npos);
  EXPECT_NE(error_of([&] { of({{name, 1}}, {2}); }).find("expected one number"), std::string::npos);
}

}  // namespace
}  // namespace mt
