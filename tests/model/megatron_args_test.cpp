// A model's settings into a checkpoint's args and back.
#include "model/config/megatron_args.h"

#include <gtest/gtest.h>

#include "model/config/yarn.h"
#include "tests/base/scratch.h"
#include "tests/model/tiny_models.h"

namespace mt {
namespace {

PyValue args_of(const ModelConfig& config, DType dtype = DType::f32) {
  PyValue args = PyValue::dict();
  add_model_args(config, dtype, args);
  return args;
}

std::vector<ModelConfig> different_configs() {
  ModelConfig odd = tiny_llama();
  odd.kv_channels = 6;
  odd.rotary_base = 500000;
  odd.rotary_percent = 0.67;
  odd.norm_epsilon = 1e-6;
  odd.add_qkv_bias = true;
  odd.untie_embeddings_and_output_weights = false;
  odd.init_method_std = 0.01;
  odd.vocab_size = 23;
  ModelConfig erf = tiny_gpt2();
  erf.bias_gelu_fusion = false;
  ModelConfig without_bias = tiny_gpt2();
  without_bias.add_bias_linear = false;
  without_bias.position_embedding_type = "none";
  ModelConfig rotary = tiny_llama();
  rotary.rotary_interleaved = rotary.use_rope_scaling = rotary.qk_layernorm = true;
  rotary.rope_scaling_factor = 32;
  rotary.rotary_interpolation = 4;
  rotary.window_size = "5,0";
  rotary.label_smoothing = 0.1;
  ModelConfig relu = tiny_gpt2();
  relu.squared_relu = relu.apply_layernorm_1p = relu.init_method_xavier_uniform = true;
  relu.bias_gelu_fusion = false;
  relu.window_size = "-1,0";
  relu.window_attn_skip_freq = {0, 1};
  ModelConfig skipping = rotary;
  skipping.window_attn_skip_freq = {2};
  ModelConfig fraction = skipping;
  fraction.rotary_base = 10000.5;
  fraction.rotary_base_window = 123.25;
  return {tiny_gpt2(),  with_dropout(tiny_gpt2()),
          tiny_llama(), odd,
          erf,          without_bias,
          rotary,       relu,
          skipping,     fraction};
}

TEST(GptArgs, ThereAndBackIsTheSameModel) {
  for (const ModelConfig& config : different_configs()) {
    const PyValue args = args_of(config);
    const ModelConfig again = model_config_of(args, ModelFamily::gpt, "common.pt");
    EXPECT_EQ(args_of(again), args);
    EXPECT_EQ(again.num_layers, config.num_layers);
    EXPECT_EQ(again.hidden_size, config.hidden_size);
    EXPECT_EQ(again.ffn(), config.ffn());
    EXPECT_EQ(again.num_attention_heads, config.num_attention_heads);
    EXPECT_EQ(again.kv_heads(), config.kv_heads());
    EXPECT_EQ(again.head_dim(), config.head_dim());
    EXPECT_EQ(again.max_position_embeddings, config.max_position_embeddings);
    EXPECT_EQ(again.position_embedding_type, config.position_embedding_type);
    EXPECT_EQ(again.rotary_dim(), config.rotary_dim());
    EXPECT_EQ(again.rotary_base, config.rotary_base);
    EXPECT_EQ(again.rotary_interleaved, config.rotary_interleaved);
    EXPECT_EQ(again.rotary_frequencies(), config.rotary_frequencies());
    for (std::int64_t layer = 0; layer < config.num_layers; ++layer)
      EXPECT_EQ(again.window(layer), config.window(layer));
    EXPECT_EQ(again.qk_layernorm, config.qk_layernorm);
    EXPECT_EQ(again.apply_layernorm_1p, config.apply_layernorm_1p);
    EXPECT_EQ(again.label_smoothing, config.label_smoothing);
    EXPECT_EQ(again.init_method_xavier_uniform, config.init_method_xavier_uniform);
    EXPECT_EQ(again.norm_kind(), config.norm_kind());
    EXPECT_EQ(again.norm_epsilon, config.norm_epsilon);
    EXPECT_EQ(again.activation(), config.activation());
    EXPECT_EQ(again.add_bias_linear, config.add_bias_linear);
    EXPECT_EQ(again.has_qkv_bias(), config.has_qkv_bias());
    EXPECT_EQ(again.untie_embeddings_and_output_weights,
              config.untie_embeddings_and_output_weights);
    EXPECT_EQ(again.attention_dropout, config.attention_dropout);
    EXPECT_EQ(again.hidden_dropout, config.hidden_dropout);
    EXPECT_EQ(again.init_method_std, config.init_method_std);
    EXPECT_EQ(again.vocab_size, config.vocab_size);
    EXPECT_EQ(again.padded_vocab_size, config.padded_vocab_size);
  }
}

// Megatron has add_qkv_bias follow from the other layers' biases, of models without a QKV
// projection, too.
TEST(GptArgs, LatentAttentionHasNoQkvBiasBesideOthers) {
  ModelConfig config = tiny_latent();
  config.add_bias_linear = true;
  config.complete();
  PyValue args = args_of(config);
  EXPECT_EQ(*args.find("add_qkv_bias"), PyValue(true));
  const ModelConfig again = model_config_of(args, ModelFamily::gpt, "common.pt");
  EXPECT_EQ(args_of(again), args);
  EXPECT_EQ(differing_setting(again, config), nullptr);
  args.set_item("add_bias_linear", false);
  try {
    model_config_of(args, ModelFamily::gpt, "common.pt");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "common.pt: args: --add-qkv-bias: not with --multi-latent-attention");
  }
}

// Megatron's --rotary-base is an integer.
TEST(GptArgs, BasesAreIntegersUnlessTheyHaveAFraction) {
  ModelConfig config = tiny_llama();
  for (const double base : {10000.0, 1e6, 500000.0, 1.0, 123456789.0}) {
    config.rotary_base = base;
    EXPECT_EQ(*args_of(config).find("rotary_base"), PyValue(static_cast<std::int64_t>(base)));
  }
  config.rotary_base = 10000.5;
  EXPECT_EQ(*args_of(config).find("rotary_base"), PyValue(10000.5));
  PyValue args = args_of(config);
  for (const PyValue& base : {PyValue(std::int64_t{77}), PyValue(77.0)}) {
    args.set_item("rotary_base", base);
    EXPECT_EQ(model_config_of(args, ModelFamily::gpt, "common.pt").rotary_base, 77);
  }
}

// As Megatron-LM's main says it.
TEST(GptArgs, YarnIsRotary) {
  ModelConfig config = tiny_llama();
  PyValue args = args_of(config);
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, PyValue>>{
           {"position_embedding_type", "yarn"},
           {"rotary_scaling_factor", 4.0},
           {"yarn_original_max_position_embeddings", 8},
           {"yarn_beta_fast", 2.0},
           {"yarn_correction_range_round_to_int", false},
           {"mscale", 1.0},
           {"mscale_all_dim", 0.0}})
    args.set_item(name, value);
  config.position_embedding_type = "yarn";
  config.rotary_scaling_factor = 4;
  config.yarn_beta_fast = 2;
  take_plain_yarn(config, {.original = 8, .rounds = false});
  config.complete();
  EXPECT_EQ(args_of(model_config_of(args, ModelFamily::gpt, "common.pt")), args_of(config));
  EXPECT_NE(config.rope_frequency_factors, "");
}

TEST(GptArgs, OfANamespaceToo) {
  const PyValue args =
      PyValue::make(PyValue::global("argparse", "Namespace"), args_of(tiny_llama()));
  EXPECT_EQ(model_config_of(args, ModelFamily::gpt, "common.pt").num_query_groups, 2);
}

TEST(GptArgs, SaysWhatIsWrongWithThem) {
  const auto complaint = [](const char* name, PyValue value) {
    PyValue args = args_of(tiny_llama());
    args.set_item(name, std::move(value));
    return error_of([&] { model_config_of(args, ModelFamily::gpt, "common.pt"); });
  };
  EXPECT_EQ(complaint("num_layers", "two"),
            "65 common.pt: args.num_layers: is a str, expected an int");
  EXPECT_EQ(complaint("window_size", PyValue::tuple({3, 3})),
            "65 common.pt: args: --window-size 3,3: expected A,0: A tokens before, or -1 for all, "
            "and none after");
  EXPECT_EQ(complaint("multi_latent_attention", true),
            "65 common.pt: args: --group-query-attention: not with --multi-latent-attention");
  EXPECT_EQ(complaint("mtp_num_layers", 8),
            "65 common.pt: args: --mtp-num-layers 8: expected 0 to 7");
  EXPECT_EQ(complaint("num_experts", 8),
            "65 common.pt: args.num_experts: is set, which is not supported");
  EXPECT_EQ(complaint("num_query_groups", 3),
            "65 common.pt: args: --num-query-groups 3: does not divide --num-attention-heads 4");
  EXPECT_EQ(error_of([] { model_config_of(PyValue::dict(), ModelFamily::gpt, "common.pt"); }),
            "65 common.pt: args: --num-layers: required, by the option or a checkpoint");
}

TEST(GptArgs, Precision) {
  EXPECT_EQ(dtype_of_args(args_of(tiny_gpt2()), "x"), DType::f32);
  EXPECT_EQ(dtype_of_args(args_of(tiny_gpt2(), DType::f64), "x"), DType::f64);
  EXPECT_EQ(dtype_of_args(PyValue::dict(), "x"), DType::f32);
  EXPECT_EQ(dtype_of_args(args_of(tiny_gpt2(), DType::bf16), "x"), DType::bf16);
  PyValue args = PyValue::dict({{"params_dtype", PyValue::global("torch", "int8")}});
  EXPECT_EQ(error_of([&] { dtype_of_args(args, "common.pt"); }),
            "65 common.pt: args.params_dtype: is int8, expected a floating-point type of torch");
  args = PyValue::dict({{"params_dtype", "float32"}});
  EXPECT_EQ(error_of([&] { dtype_of_args(args, "common.pt"); }),
            "65 common.pt: args.params_dtype: is a str, expected a floating-point type of torch");
}

}  // namespace
}  // namespace mt
