// Whether a run computes what its checkpoint's model does.
#include <gtest/gtest.h>

#include "tests/base/scratch.h"
#include "tests/model/tiny_models.h"

namespace mt {
namespace {

const std::string kWayOut = "; --use-checkpoint-args takes the checkpoint's";

std::string difference(const ModelConfig& stored, void (*change)(ModelConfig&)) {
  ModelConfig run = stored;
  change(run);
  return error_of([&] { check_same_model(run, stored, "ckpt"); });
}

TEST(SameModel, NamesWhatDiffers) {
  const auto of_gpt2 = [](void (*change)(ModelConfig&)) { return difference(tiny_gpt2(), change); };
  EXPECT_EQ(of_gpt2([](ModelConfig& c) { c.num_layers = 3; }),
            "78 ckpt: --num-layers is 2 in the checkpoint and 3 here" + kWayOut);
  EXPECT_EQ(of_gpt2([](ModelConfig& c) { c.norm_epsilon = 0.5; }),
            "78 ckpt: --norm-epsilon is 1e-05 in the checkpoint and 0.5 here" + kWayOut);
  EXPECT_EQ(of_gpt2([](ModelConfig& c) { c.normalization = "RMSNorm"; }),
            "78 ckpt: --normalization is LayerNorm in the checkpoint and RMSNorm here" + kWayOut);
  EXPECT_EQ(of_gpt2([](ModelConfig& c) { c.qk_layernorm = true; }),
            "78 ckpt: --qk-layernorm is off in the checkpoint and on here" + kWayOut);
  EXPECT_EQ(of_gpt2([](ModelConfig& c) { c.add_bias_linear = false; }),
            "78 ckpt: --disable-bias-linear is off in the checkpoint and on here" + kWayOut);
  EXPECT_EQ(of_gpt2([](ModelConfig& c) { c.max_position_embeddings = 16; }),
            "78 ckpt: --max-position-embeddings is 8 in the checkpoint and 16 here" + kWayOut);
  EXPECT_EQ(of_gpt2([](ModelConfig& c) { c.bias_gelu_fusion = false; }),
            "78 ckpt: GeLU in its tanh form is on in the checkpoint and off here" + kWayOut);
  EXPECT_EQ(of_gpt2([](ModelConfig& c) { c.window_size = "3,0"; }),
            "78 ckpt: the window of a layer (--window-size) is -1 in the checkpoint and 3 here" +
                kWayOut);
}

TEST(SameModel, ComparesWhatSettingsMeanTogether) {
  const auto of_llama = [](void (*change)(ModelConfig&)) {
    return difference(tiny_llama(), change);
  };
  EXPECT_EQ(of_llama([](ModelConfig& c) { c.group_query_attention = false; }),
            "78 ckpt: --num-query-groups is 2 in the checkpoint and 4 here" + kWayOut);
  EXPECT_EQ(of_llama([](ModelConfig& c) { c.ffn_hidden_size = {}; }),
            "78 ckpt: --ffn-hidden-size is 40 in the checkpoint and 0 here" + kWayOut);
  EXPECT_EQ(of_llama([](ModelConfig& c) { c.add_qkv_bias = true; }),
            "78 ckpt: a bias in the QKV projection is off in the checkpoint and on here" + kWayOut);
  const std::string none = of_llama([](ModelConfig& c) {
    c.kv_channels = c.head_dim();
    c.rotary_interpolation = 1;
    c.window_size = "-1,0";
    c.bias_gelu_fusion = false;
    c.max_position_embeddings = 4;
  });
  EXPECT_EQ(none, "");
}

TEST(SameModel, ARunThatBeginsAnewMayReachFurther) {
  const ModelConfig stored = tiny_llama();
  ModelConfig run = stored;
  run.rotary_base = 500000;
  run.use_rope_scaling = true;
  run.rotary_interpolation = 2;
  run.window_size = "3,0";
  run.max_position_embeddings = 64;
  EXPECT_EQ(check_same_model(run, stored, "ckpt", true),
            "--rotary-base is 10000 in the checkpoint and 500000 here; "
            "--rotary-seq-len-interpolation-factor is 1 in the checkpoint and 2 here; "
            "--use-rope-scaling is off in the checkpoint and on here; the window of a layer "
            "(--window-size) is -1 in the checkpoint and 3 here");
  EXPECT_EQ(error_of([&] { check_same_model(run, stored, "ckpt"); }),
            "78 ckpt: --rotary-base is 10000 in the checkpoint and 500000 here" + kWayOut);
  run.rotary_interleaved = true;
  EXPECT_EQ(error_of([&] { check_same_model(run, stored, "ckpt", true); }),
            "78 ckpt: --rotary-interleaved is off in the checkpoint and on here" + kWayOut);
  run = stored;
  run.family = ModelFamily::mixtral;
  EXPECT_EQ(error_of([&] { check_same_model(stored, run, "ckpt", true); }),
            "78 ckpt: is a model of another family than this run trains");
}

TEST(SameModel, TrainingMayBeAnother) {
  check_same_model(with_dropout(tiny_gpt2()), tiny_gpt2(), "ckpt");
  EXPECT_EQ(difference(tiny_gpt2(),
                       [](ModelConfig& c) {
                         c.label_smoothing = 0.1;
                         c.init_method_std = 1;
                         c.init_method_xavier_uniform = true;
                         c.vocab_size = 20;
                       }),
            "");
}

}  // namespace
}  // namespace mt
