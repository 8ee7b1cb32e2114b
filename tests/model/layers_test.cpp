// The layers of every family, walked without a device.
#include "model/layers.h"

#include <gtest/gtest.h>

#include <string>

#include "model/config/model_config.h"
#include "model/layers/layer_rows.h"
#include "model/stage_range.h"

namespace mt {
namespace {

ModelConfig of(ModelFamily family, std::int64_t layers) {
  ModelConfig config;
  config.family = family;
  config.num_layers = layers;
  return config;
}

// A letter a branch: attention *, latent attention +, cross-attention x, Mamba M, MLP -, experts E;
// layers of a stack behind its name.
std::string text_of(const std::vector<LayerPlan>& layers) {
  std::string text;
  std::string_view stack;
  std::int64_t number = 0;
  for (const LayerPlan& layer : layers) {
    if (layer.stack != stack) text.append(layer.stack).append(":"), number = 0;
    stack = layer.stack;
    EXPECT_EQ(layer.number, number++);
    text += ' ';
    for (const BranchKind* kind : layer.branches) text += kind->letter;
  }
  return text;
}

TEST(Layers, OfEveryFamily) {
  EXPECT_EQ(text_of(layers_of(of(ModelFamily::gpt, 3))), "decoder: *- *- *-");
  EXPECT_EQ(text_of(layers_of(of(ModelFamily::mixtral, 2))), "decoder: *E *E");
  ModelConfig some = of(ModelFamily::mixtral, 5);
  some.moe_layer_freq = "2";
  EXPECT_EQ(text_of(layers_of(some)), "decoder: *E *- *E *- *E");
  some.moe_layer_freq = "([0]*2+[1]*3)";
  EXPECT_EQ(text_of(layers_of(some)), "decoder: *- *- *E *E *E");
  EXPECT_EQ(text_of(layers_of(of(ModelFamily::bert, 2))), "encoder: *- *-");
  ModelConfig hybrid = of(ModelFamily::mamba, 5);
  hybrid.hybrid_pattern = "MM*-M";
  EXPECT_EQ(text_of(layers_of(hybrid)), "decoder: M M * - M");
  hybrid.hybrid_pattern = "ME+-E";
  hybrid.mtp_hybrid_pattern = "+EM";
  EXPECT_EQ(text_of(layers_of(hybrid)), "decoder: M E + - E");
  EXPECT_EQ(text_of(further_layers_of(hybrid)), "mtp: + E M");
  EXPECT_EQ(text_of(further_layers_of(of(ModelFamily::mixtral, 2))), "mtp: *E");
  ModelConfig rules = of(ModelFamily::mixtral, 4);
  rules.experimental_attention_variant = kGatedDeltaNet;
  rules.linear_attention_freq = "3";
  EXPECT_EQ(text_of(layers_of(rules)), "decoder: GE GE *E GE");
  for (const LayerPlan& layer : layers_of(rules)) EXPECT_FALSE(layer.stacked);
  ModelConfig t5 = of(ModelFamily::t5, 3);
  t5.encoder_num_layers = 2;
  EXPECT_EQ(text_of(layers_of(t5)), "encoder: *- *-decoder: *x- *x- *x-");
}

// The T5's number of an encoder's layers says nothing of another family.
TEST(Layers, OnlyAT5HasAnEncoderBeforeItsDecoder) {
  ModelConfig gpt = of(ModelFamily::gpt, 1);
  gpt.encoder_num_layers = 2;
  EXPECT_EQ(text_of(layers_of(gpt)), "decoder: *-");
}

TEST(Layers, NoTwoOfAHybridNeedBeAlike) {
  ModelConfig hybrid = of(ModelFamily::mamba, 2);
  hybrid.hybrid_pattern = "MM";
  for (const LayerPlan& layer : layers_of(hybrid)) EXPECT_FALSE(layer.stacked);
  ModelConfig experts = of(ModelFamily::mixtral, 2);
  for (const LayerPlan& layer : layers_of(experts)) EXPECT_TRUE(layer.stacked);
  experts.moe_layer_freq = "[0,1]";
  for (const LayerPlan& layer : layers_of(experts)) EXPECT_FALSE(layer.stacked);
}

// What --moe-layer-freq says, as Python reads it: shortest, or why it says nothing.
TEST(Layers, WhichHaveExpertsIsANumberOrAList) {
  const auto said = [](const char* freq, std::int64_t layers = 4) {
    ExpertConfig config;
    config.moe_layer_freq = freq;
    try {
      const std::string shortest = config.shortest_freq(layers);
      config.moe_layer_freq = shortest;
      EXPECT_EQ(config.shortest_freq(layers), shortest);
      config.experts_of_layers(layers);
      return shortest;
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(said("1"), "1");
  EXPECT_EQ(said(" (1 + 2) "), "3");
  EXPECT_EQ(said("[0, 1,1,1]"), "[0,1,1,1]");
  EXPECT_EQ(said("([0]*1+[1]*3)"), "[0,1,1,1]");
  EXPECT_EQ(said("2*[0,1,]"), "[0,1,0,1]");
  EXPECT_EQ(said("[1]*4"), "[1,1,1,1]");
  EXPECT_EQ(said("[0]*2+[1]*4"), "--moe-layer-freq [0]*2+[1]*4: 6 numbers for 4 layers");
  EXPECT_EQ(said("[0,1,2,1]"), "--moe-layer-freq [0,1,2,1]: has 2 for a layer, expected 0 or 1");
  EXPECT_EQ(said("0"), "--moe-layer-freq 0: expected at least 1");
  for (const auto& [wrong, character] : {std::pair("[0]+1", 6),
                                         {"", 1},
                                         {"[1", 3},
                                         {"1]", 2},
                                         {"-1", 1},
                                         {"[[1]]", 5},
                                         {"a", 1},
                                         {"[1]*99999", 5},
                                         {"[1]*[1]", 8}})
    EXPECT_EQ(said(wrong), concat("--moe-layer-freq ", wrong, ": character ", character,
                                  ": expected N, or a list as Python has it, ([0]*3+[1]*29) say"));
}

// A stage's layers of each stack, by their numbers in it.
TEST(Layers, AStageMayHaveTheEndOfOneStackAndTheBeginningOfTheNext) {
  ModelConfig t5 = of(ModelFamily::t5, 3);
  t5.encoder_num_layers = 2;
  const std::vector<LayerPlan> layers = layers_of(t5);
  using Runs = std::vector<StackRun>;
  EXPECT_EQ(runs_of(layers, {0, 5}), (Runs{{"encoder", 0, 2}, {"decoder", 0, 3}}));
  EXPECT_EQ(runs_of(layers, {1, 4}), (Runs{{"encoder", 1, 2}, {"decoder", 0, 2}}));
  EXPECT_EQ(runs_of(layers, {3, 9}), (Runs{{"decoder", 1, 3}}));
  EXPECT_EQ(runs_of(layers, {2, 2}), Runs());
}

TEST(Layers, NoLayersMakeNone) { EXPECT_EQ(text_of(layers_of(of(ModelFamily::gpt, 0))), ""); }

}  // namespace
}  // namespace mt
