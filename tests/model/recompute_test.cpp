// Recompute: which blocks, and that it changes no bit of the loss or of a gradient.
#include "model/config/recompute.h"

#include <gtest/gtest.h>

#include "nn/mlp.h"
#include "tests/model/support.h"

namespace mt {
namespace {

RecomputeOptions full(const std::string& method, std::int64_t layers) {
  return {.granularity = "full", .method = method, .num_layers = layers};
}

RecomputeOptions selective(const std::vector<std::string>& modules) {
  return {.granularity = "selective", .modules = modules};
}

struct Mode {
  const char* name;
  RecomputeOptions options;
};

const std::vector<Mode>& modes() {
  static const std::vector<Mode> all = {
      {"uniform1", full("uniform", 1)},
      {"uniform2", full("uniform", 2)},
      {"uniform4", full("uniform", 4)},
      {"block1", full("block", 1)},
      {"block3", full("block", 3)},
      {"block9", full("block", 9)},
      {"core_attn", selective({"core_attn"})},
      {"mlp", selective({"mlp"})},
      {"layernorm", selective({"layernorm"})},
      {"core_attn_mlp", selective({"core_attn", "mlp"})},
      {"mlp_layernorm", selective({"mlp", "layernorm"})},
      {"all_parts", selective({"core_attn", "mlp", "layernorm"})},
  };
  return all;
}

std::string text_of(const std::vector<LayerRun>& runs) {
  std::string text;
  for (const auto& [begin, end, again] : runs) text += concat(begin, "-", end, again ? "* " : " ");
  return text;
}

TEST(Recompute, RunsOfBlocks) {
  EXPECT_EQ(text_of(RecomputeOptions().runs(3)), "0-1 1-2 2-3 ");
  EXPECT_EQ(text_of(selective({"mlp"}).runs(2)), "0-1 1-2 ");
  EXPECT_EQ(text_of(full("uniform", 1).runs(2)), "0-1* 1-2* ");
  EXPECT_EQ(text_of(full("uniform", 3).runs(6)), "0-3* 3-6* ");
  EXPECT_EQ(text_of(full("block", 2).runs(4)), "0-1* 1-2* 2-3 3-4 ");
  EXPECT_EQ(text_of(full("block", 7).runs(2)), "0-1* 1-2* ");
  EXPECT_EQ(text_of(full("uniform", 3).runs(0)), "");
}

TEST(Recompute, SelectiveIsCoreAttentionUnlessPartsAreNamed) {
  RecomputeOptions options{.activations = true};
  options.complete(2);
  EXPECT_EQ(options.granularity, "selective");
  EXPECT_TRUE(options.part("core_attn"));
  EXPECT_FALSE(options.part("mlp"));
  options = selective({"mlp", "layernorm"});
  options.complete(2);
  EXPECT_FALSE(options.part("core_attn"));
  EXPECT_TRUE(options.part("mlp"));
  EXPECT_TRUE(options.part("layernorm"));
  options = {};
  options.complete(2);
  EXPECT_FALSE(options.part("core_attn"));
}

// By dtype, and with weight gradients that wait: the loss and every gradient, bit for bit.
class RecomputedGpt : public testing::TestWithParam<Mode> {};
void PrintTo(const Mode& mode, std::ostream* out) { *out << mode.name; }
std::string name_of_case(const testing::TestParamInfo<Mode>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(In, RecomputedGpt, testing::ValuesIn(modes()), name_of_case);

TEST_P(RecomputedGpt, HasTheSameBits) {
  ModelConfig gpt2 = with_dropout(tiny_gpt2()), llama = with_dropout(tiny_llama());
  for (ModelConfig* config : {&gpt2, &llama})
    for (const DType dtype : {DType::f32, DType::f64})
      for (const bool deferring : {false, true}) {
        SCOPED_TRACE(concat(config->normalization, " ", name_of(dtype), " ", deferring));
        config->num_layers = 4;
        config->recompute = {};
        ModelBench kept(*config, dtype);
        config->recompute = GetParam().options;
        config->complete();
        ModelBench made_again(*config, dtype, deferring);
        kept.forward_and_backward();
        made_again.forward_and_backward();
        EXPECT_GT(largest(gradients_of(kept.table())), 0);
        EXPECT_SAME_BITS(made_again.loss().view(), kept.loss().view());
        EXPECT_SAME_BITS(gradients_of(made_again.table()), gradients_of(kept.table()));
        made_again.forward_and_backward();  // nothing is left of the first time
        EXPECT_SAME_BITS(gradients_of(made_again.table()), gradients_of(kept.table()));
      }
}

// What the activations of experts make, with biases and without.
TEST(RecomputedExperts, HaveTheSameBits) {
  ModelConfig biased_swiglu = tiny_biased_experts();
  biased_swiglu.swiglu = true;
  biased_swiglu.complete();
  for (ModelConfig config : {with_dropout(tiny_mixtral()), tiny_gelu_experts(),
                             tiny_biased_experts(), tiny_gpt_oss(), biased_swiglu})
    for (const bool deferring : {false, true}) {
      SCOPED_TRACE(concat(config.activation() == Activation::swiglu, config.add_bias_linear));
      ModelBench kept(config, DType::f32);
      config.recompute = selective({"moe_act"});
      config.complete();
      ModelBench made_again(config, DType::f32, deferring);
      kept.forward_and_backward();
      made_again.forward_and_backward();
      EXPECT_SAME_BITS(made_again.loss().view(), kept.loss().view());
      EXPECT_SAME_BITS(gradients_of(made_again.table()), gradients_of(kept.table()));
      config.recompute = {};
    }
}

}  // namespace
}  // namespace mt
