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
    return cache_scales_in(scratch_.path("folder"));
  }
};

TEST_F(CacheScalesOf, FoldersOfThreeKinds) {
  const auto scales = of({{"model.layers.0.self_attn.k_proj.k_scale", 0.5F},
                          {"model.layers.0.self_attn.v_proj.v_scale", 2},
                          {"model.layers.2.self_attn.k_scale", 3},
                          {"model.layers.3.self_attn.attn.v_scale", 4},
                          {"model.layers.9.mlp.k_scale", 5},
                          {"model.layers.x.self_attn.k_scale", 6},
                          {"model.layers.1.self_attn.k_proj.weight_scale", 7}});
  ASSERT_EQ(scales.size(), 4U);
  const float expected[][2] = {{0.5, 2}, {1, 1}, {3, 1}, {1, 4}};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(scales[i].keys, expected[i][0]) << i;
    EXPECT_EQ(scales[i].values, expected[i][1]) << i;
  }
  EXPECT_EQ(of({{"x", 1}}).size(), 0U);
  EXPECT_EQ(cache_scales_in(scratch_.path("none")).size(), 0U);
}

TEST_F(CacheScalesOf, WhatScalesNothingIsRefused) {
  const std::string name = "model.layers.0.self_attn.k_scale";
  for (const float wrong : {0.F, -1.F, std::numeric_limits<float>::infinity()})
    EXPECT_NE(error_of([&] { of({{name, wrong}}); }).find(name + " is "), std::string::npos);
  EXPECT_NE(error_of([&] { of({{name, 1}}, {2}); }).find("expected one number"), std::string::npos);
}

}  // namespace
}  // namespace mt
