// What follows from a GPT's settings, and which settings do not fit together.
#include "model/config/model_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "model/config/yarn.h"
#include "nn/mlp.h"
#include "tests/model/tiny_models.h"

namespace mt {
namespace {

TEST(ModelConfig, PadsTheVocabulary) {
  ModelConfig c = tiny_gpt2();
  const auto padded = [&](std::int64_t vocab, std::int64_t divisor) {
    c.vocab_size = vocab;
    c.make_vocab_size_divisible_by = divisor;
    c.padded_vocab_size = 0;
    c.complete();
    return c.padded_vocab_size;
  };
  EXPECT_EQ(padded(50257, 128), 50304);
  EXPECT_EQ(padded(32000, 128), 32000);
  EXPECT_EQ(padded(128256, 128), 128256);
  EXPECT_EQ(padded(1, 128), 128);
  EXPECT_EQ(padded(24, 1), 24);
}

TEST(ModelConfig, DerivesTheMlpsWidth) {
  ModelConfig c = tiny_gpt2();
  c.hidden_size = 4096;
  EXPECT_EQ(c.ffn(), 16384);
  c.swiglu = true;
  EXPECT_EQ(c.ffn(), 10880);
  c.hidden_size = 5120;
  EXPECT_EQ(c.ffn(), 13632);
  c.ffn_hidden_size = 7;
  EXPECT_EQ(c.ffn(), 7);
}

TEST(ModelConfig, ChoosesTheActivation) {
  ModelConfig c = tiny_gpt2();
  EXPECT_EQ(c.activation(), Activation::gelu_tanh);
  c.bias_gelu_fusion = false;
  EXPECT_EQ(c.activation(), Activation::gelu_erf);
  c.bias_gelu_fusion = true;
  c.add_bias_linear = false;
  EXPECT_EQ(c.activation(), Activation::gelu_erf);
  c.swiglu = true;
  EXPECT_EQ(c.activation(), Activation::swiglu);
}

TEST(ModelConfig, RotaryFrequencies) {
  ModelConfig c = tiny_llama();
  c.kv_channels = 128;
  c.rotary_base = 500000;
  c.use_rope_scaling = true;
  std::vector<double> f = c.rotary_frequencies();
  ASSERT_EQ(f.size(), 64U);
  EXPECT_NEAR(f[28], 0.0032114460, 1e-10);
  EXPECT_NEAR(f[32], 0.00052484616, 1e-11);
  EXPECT_NEAR(f[36], 7.7846553e-05, 1e-12);
  EXPECT_NEAR(f[63], 3.0689260e-07, 1e-13);
  c.rope_scaling_factor = 16;
  EXPECT_NEAR(c.rotary_frequencies()[63], 3.0689260e-07 / 2, 1e-13);
  c.use_rope_scaling = false;
  f = c.rotary_frequencies();
  EXPECT_NEAR(f[32], 0.00141421356, 1e-10);
  c.rotary_interpolation = 4;
  for (std::size_t i = 0; i < f.size(); ++i) EXPECT_DOUBLE_EQ(c.rotary_frequencies()[i], f[i] / 4);
  c.rotary_percent = 0.25;
  EXPECT_EQ(c.rotary_frequencies().size(), 16U);
  c.position_embedding_type = "none";
  EXPECT_EQ(c.rotary_frequencies().size(), 0U);
}

// Of gpt-oss, and of a DeepSeek's rotary channels.
TEST(ModelConfig, PlainYarn) {
  ModelConfig c = tiny_llama();
  const auto stretch = [&](double base, double factor, const PlainYarn& plain) {
    c.position_embedding_type = "yarn";
    c.kv_channels = 64;
    c.rotary_base = base;
    c.rotary_scaling_factor = factor;
    take_plain_yarn(c, plain);
    c.complete();
    EXPECT_EQ(c.position_embedding_type, "rope");
    return c.rotary_frequencies();
  };
  std::vector<double> f = stretch(150000, 32, {.rounds = false});
  ASSERT_EQ(f.size(), 32U);
  for (const auto& [i, expected] : {std::pair(0, 1.0),
                                    {8, 5.08132748e-2},
                                    {12, 6.79495949e-3},
                                    {16, 4.56483919e-4},
                                    {20, 1.81883367e-5},
                                    {31, 3.02351143e-7}})
    EXPECT_NEAR(f[static_cast<std::size_t>(i)], expected, 1e-7 * expected) << i;
  EXPECT_NEAR(c.rope_attention_factor, 1.34657359, 1e-8);
  f = stretch(10000, 40, {});
  for (const auto& [i, expected] : {std::pair(0, 1.0),
                                    {10, .056234133},
                                    {16, .0055},
                                    {20, .00079056942},
                                    {23, 3.3338036e-05},
                                    {31, 3.3338036e-06}})
    EXPECT_NEAR(f[static_cast<std::size_t>(i)], expected, 1e-7 * expected) << i;
  stretch(10000, 40, {.mscale_all_dim = 1});
  EXPECT_EQ(c.rope_attention_factor, 1);
  EXPECT_NE(stretch(10000, 40, {.original = 8192}), f);
  f = stretch(10000, 1, {});  // as they were, whatever stretched them before
  EXPECT_NEAR(f.back(), std::pow(10000, -31.0 / 32), 1e-12);
  EXPECT_EQ(c.rope_attention_factor, 1);
}

TEST(ModelConfig, WeightsOfBalance) {
  ExpertConfig c;
  c.moe_router_load_balancing_type = {"aux_loss", "seq_aux_loss"};
  c.moe_aux_loss_coeff = {0.01, 0.001};
  EXPECT_EQ(c.aux_loss_coeff("aux_loss"), 0.01);
  EXPECT_EQ(c.aux_loss_coeff("seq_aux_loss"), 0.001);
  EXPECT_EQ(c.aux_loss_coeff("global_aux_loss"), 0);
}

TEST(ModelConfig, Windows) {
  ModelConfig c = tiny_llama();
  const auto windows = [&] {
    std::vector<std::int64_t> all;
    for (std::int64_t layer = 0; layer < c.num_layers; ++layer) all.push_back(c.window(layer));
    return all;
  };
  using Windows = std::vector<std::int64_t>;
  c.num_layers = 5;
  EXPECT_EQ(windows(), (Windows{-1, -1, -1, -1, -1}));
  c.window_size = std::string("127,0");
  EXPECT_EQ(windows(), (Windows{127, 127, 127, 127, 127}));
  c.window_attn_skip_freq = {2};
  EXPECT_EQ(windows(), (Windows{127, -1, 127, -1, 127}));
  c.window_attn_skip_freq = {0, 1, 1, 0, 0};
  EXPECT_EQ(windows(), (Windows{-1, 127, 127, -1, -1}));
  c.window_size = std::string("(127, 0)");  // as Python writes it
  EXPECT_EQ(windows(), (Windows{-1, 127, 127, -1, -1}));
  c.complete();
  EXPECT_EQ(c.window_size, "127,0");
  c.window_size = std::string("-1,0");
  EXPECT_EQ(windows(), (Windows{-1, -1, -1, -1, -1}));
}

TEST(ModelConfig, OtherWordsForThePositions) {
  ModelConfig c = tiny_gpt2();
  c.use_rotary_position_embeddings = true;
  c.position_embedding = false;
  c.complete();
  EXPECT_EQ(c.position_embedding_type, "rope");
  EXPECT_EQ(c.rotary_dim(), 4);
}

struct Mistake {
  const char* option;  // that the line must start with
  void (*make)(ModelConfig&);
  Exit code = Exit::bad_config;
};

TEST(ModelConfig, NamesTheOptionThatIsMissing) {
  const Mistake mistakes[] = {
      {"--num-layers: required", [](ModelConfig& c) { c.num_layers = 0; }},
      {"--hidden-size: required", [](ModelConfig& c) { c.hidden_size = 0; }},
      {"--num-attention-heads: required", [](ModelConfig& c) { c.num_attention_heads = 0; }},
      {"--max-position-embeddings: required",
       [](ModelConfig& c) { c.max_position_embeddings = 0; }},
      {"--vocab-size: required", [](ModelConfig& c) { c.vocab_size = 0; }},
  };
  for (const Mistake& mistake : mistakes) {
    ModelConfig c = tiny_llama();
    mistake.make(c);
    try {
      c.complete();
      ADD_FAILURE() << mistake.option;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::usage);
      EXPECT_TRUE(std::string_view(error.what()).starts_with(mistake.option)) << error.what();
    }
  }
}

TEST(ModelConfig, NamesTheOptionThatDoesNotFit) {
  const Mistake mistakes[] = {
      {"--hidden-size 18: not a multiple of --num-attention-heads 4",
       [](ModelConfig& c) { c.hidden_size = 18; }},
      {"--num-query-groups 3: does not divide --num-attention-heads 4",
       [](ModelConfig& c) { c.num_query_groups = 3; }},
      {"--rotary-percent 0.3: rotates 1 of 4 channels",
       [](ModelConfig& c) { c.rotary_percent = 0.3; }},
      {"the vocabulary of 25 tokens is larger than the model's 24",
       [](ModelConfig& c) { c.vocab_size = 25; }},
      {"--squared-relu: excludes --swiglu", [](ModelConfig& c) { c.squared_relu = true; }},
      {"--squared-relu: needs --no-bias-gelu-fusion",
       [](ModelConfig& c) {
         c.swiglu = false;
         c.squared_relu = c.add_bias_linear = true;
       }},
      {"--no-position-embedding: ",
       [](ModelConfig& c) {
         c.position_embedding_type = "learned_absolute";
         c.position_embedding = false;
       }},
      {"--rotary-interleaved: needs --position-embedding-type rope",
       [](ModelConfig& c) {
         c.position_embedding_type = "none";
         c.rotary_interleaved = true;
       }},
      {"--rotary-seq-len-interpolation-factor: needs",
       [](ModelConfig& c) {
         c.position_embedding_type = "none";
         c.rotary_interpolation = 2;
       }},
      {"--use-rope-scaling: needs",
       [](ModelConfig& c) {
         c.position_embedding_type = "none";
         c.use_rope_scaling = true;
       }},
      {"--window-size 3: expected A,0", [](ModelConfig& c) { c.window_size = std::string("3"); }},
      {"--window-size 3,1: expected A,0",
       [](ModelConfig& c) { c.window_size = std::string("3,1"); }},
      {"--window-size -2,0: expected A,0",
       [](ModelConfig& c) { c.window_size = std::string("-2,0"); }},
      {"--window-attn-skip-freq: needs --window-size",
       [](ModelConfig& c) { c.window_attn_skip_freq = {2}; }},
      {"--window-attn-skip-freq: 3 numbers for 2 layers",
       [](ModelConfig& c) {
         c.window_size = std::string("3,0");
         c.window_attn_skip_freq = {0, 1, 1};
       }},
      {"--window-attn-skip-freq 0: expected at least 1",
       [](ModelConfig& c) {
         c.window_size = std::string("3,0");
         c.window_attn_skip_freq = {0};
       }},
      {"--no-rope-freq 3: does not divide 2 layers", [](ModelConfig& c) { c.no_rope_freq = {3}; }},
      {"--no-rope-freq: 3 numbers for 2 layers",
       [](ModelConfig& c) {
         c.no_rope_freq = {0, 1, 1};
       }},
      {"--no-rope-freq: needs --position-embedding-type rope",
       [](ModelConfig& c) {
         c.position_embedding_type = "none";
         c.no_rope_freq = {2};
       }},
      {"--rotary-base-window: needs --window-size",
       [](ModelConfig& c) { c.rotary_base_window = 100; }},
      {"--qk-layernorm-whole: needs --qk-layernorm",
       [](ModelConfig& c) { c.qk_layernorm_whole = true; }},
      {"--disable-norm-bias: an RMSNorm has none", [](ModelConfig& c) { c.norm_bias = false; }},
      {"--latent-norm-epsilon: needs --qk-layernorm",
       [](ModelConfig& c) {
         c = tiny_latent();
         c.latent_norm_epsilon = 1e-3;
         c.qk_layernorm = false;
       }},
      {"--latent-norm-epsilon: needs --multi-latent-attention",
       [](ModelConfig& c) { c.latent_norm_epsilon = 1e-3; }},
      {"--no-pre-layernorm: needs --post-layernorm",
       [](ModelConfig& c) { c.pre_layernorm = false; }},
      {"--parallel-block: has its norms in front",
       [](ModelConfig& c) { c.parallel_block = c.post_layernorm = true; }},
      {"--qk-layernorm-behind-rope: needs --qk-layernorm of each head and "
       "--position-embedding-type rope",
       [](ModelConfig& c) { c.qk_layernorm_behind_rope = true; }},
      {"--qk-layernorm-behind-rope: not with --rope-attention-factor",
       [](ModelConfig& c) {
         c.position_embedding_type = "rope";
         c.qk_layernorm = c.qk_layernorm_behind_rope = true;
         c.rope_attention_factor = 2;
       }},
      {"--qk-layernorm-per-head: needs --qk-layernorm of each head, and excludes "
       "--apply-layernorm-1p, --disable-norm-weight and --multi-latent-attention",
       [](ModelConfig& c) { c.qk_layernorm_per_head = true; }},
      {"--xielu: needs --disable-bias-linear, and excludes all other activations",
       [](ModelConfig& c) { c.xielu = true; }},
      {"--tanh-gelu: excludes all other activations", [](ModelConfig& c) { c.tanh_gelu = true; }},
      {"--clip-qkv: not with --attention-output-gate or --multi-latent-attention",
       [](ModelConfig& c) {
         c.clip_qkv = 2;
         c.attention_output_gate = true;
       }},
      {"--clip-qkv: of a GPT alone",
       [](ModelConfig& c) {
         c.family = ModelFamily::mixtral;
         c.num_experts = 4;
         c.clip_qkv = 2;
       }},
      {"--position-embedding-type alibi: of a GPT alone",
       [](ModelConfig& c) {
         c.family = ModelFamily::bert;
         c.position_embedding_type = "alibi";
       }},
      {"--parallel-norms: needs --parallel-block", [](ModelConfig& c) { c.parallel_norms = true; }},
      {"--add-output-bias: not with --logit-scale and --final-logit-softcapping",
       [](ModelConfig& c) { c.output_bias = true, c.logit_scale = 2; }},
      {"--disable-norm-weight: needs --disable-norm-bias",
       [](ModelConfig& c) {
         c.normalization = "LayerNorm";
         c.norm_weight = false;
       }},
      {"--residual-of-norm: of norms in front alone",
       [](ModelConfig& c) { c.residual_of_norm = c.parallel_block = true; }},
      {"--gated-linear-unit: excludes --swiglu", [](ModelConfig& c) { c.gated_gelu = true; }},
      {"--bert-no-lm-head: needs --bert-no-binary-head",
       [](ModelConfig& c) {
         c = tiny_gpt2();
         c.family = ModelFamily::bert;
         c.bert_lm_head = false;
       }},
      {"--num-token-types 0: needs --bert-no-binary-head",
       [](ModelConfig& c) {
         c = tiny_gpt2();
         c.family = ModelFamily::bert;
         c.num_token_types = 0;
       }},
      {"--post-layernorm: of a GPT alone",
       [](ModelConfig& c) {
         c.family = ModelFamily::bert;
         c.post_layernorm = true;
       }},
      {"--softmax-scale 0: ", [](ModelConfig& c) { c.softmax_scale = 0; }},
      {"--attn-logit-softcapping -1: ", [](ModelConfig& c) { c.attn_logit_softcapping = -1; }},
      // What options cannot say but a damaged checkpoint can.
      {"--num-layers -1: ", [](ModelConfig& c) { c.num_layers = -1; }},
      {"--num-layers 9223372036854775807: ",
       [](ModelConfig& c) { c.num_layers = std::numeric_limits<std::int64_t>::max(); }},
      {"--hidden-size -16: ", [](ModelConfig& c) { c.hidden_size = -16; }},
      {"--hidden-size 4611686018427387904: ",
       [](ModelConfig& c) { c.hidden_size = std::int64_t{1} << 62; }},
      {"--num-attention-heads -4: ", [](ModelConfig& c) { c.num_attention_heads = -4; }},
      {"--num-query-groups 0: ", [](ModelConfig& c) { c.num_query_groups = 0; }},
      {"--kv-channels 0: ", [](ModelConfig& c) { c.kv_channels = 0; }},
      {"--kv-channels 1099511627776: ",
       [](ModelConfig& c) { c.kv_channels = std::int64_t{1} << 40; }},
      {"--ffn-hidden-size 0: ", [](ModelConfig& c) { c.ffn_hidden_size = 0; }},
      {"--max-position-embeddings -1: ", [](ModelConfig& c) { c.max_position_embeddings = -1; }},
      {"--vocab-size 4294967296: ",
       [](ModelConfig& c) { c.vocab_size = c.padded_vocab_size = std::int64_t{1} << 32; }},
      {"--make-vocab-size-divisible-by 0: ",
       [](ModelConfig& c) { c.make_vocab_size_divisible_by = c.padded_vocab_size = 0; }},
      {"--rotary-base 0: ", [](ModelConfig& c) { c.rotary_base = 0; }},
      {"--rotary-percent nan: ",
       [](ModelConfig& c) { c.rotary_percent = std::numeric_limits<double>::quiet_NaN(); }},
      {"--rotary-percent 1.5: ", [](ModelConfig& c) { c.rotary_percent = 1.5; }},
      {"--label-smoothing 1: ", [](ModelConfig& c) { c.label_smoothing = 1; }},
      {"--rope-scaling-factor 0: ", [](ModelConfig& c) { c.rope_scaling_factor = 0; }},
      {"--rotary-seq-len-interpolation-factor inf: ",
       [](ModelConfig& c) { c.rotary_interpolation = std::numeric_limits<double>::infinity(); }},
      {"--init-method-std nan: ",
       [](ModelConfig& c) { c.init_method_std = std::numeric_limits<double>::quiet_NaN(); }},
      {"--final-logit-softcapping inf: ",
       [](ModelConfig& c) { c.final_logit_softcapping = std::numeric_limits<double>::infinity(); }},
      {"--norm-epsilon -1: ", [](ModelConfig& c) { c.norm_epsilon = -1; }},
      {"--attention-dropout 1: ", [](ModelConfig& c) { c.attention_dropout = 1; }},
      {"--hidden-dropout -0.5: ", [](ModelConfig& c) { c.hidden_dropout = -0.5; }},
      {"--position-embedding-type relative: ",
       [](ModelConfig& c) { c.position_embedding_type = "relative"; }},
      {"--normalization L2Norm: ", [](ModelConfig& c) { c.normalization = "L2Norm"; }},
  };
  for (const Mistake& mistake : mistakes) {
    ModelConfig c = tiny_llama();
    mistake.make(c);
    try {
      c.complete();
      ADD_FAILURE() << mistake.option;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::bad_config) << error.what();
      EXPECT_TRUE(std::string_view(error.what()).starts_with(mistake.option)) << error.what();
    }
  }
}

// Channels that turn are a whole number, whatever a quotient is rounded to: 30 of 44, say.
TEST(ModelConfig, RotaryPercentOfChannels) {
  PositionConfig positions;
  positions.position_embedding_type = "rope";
  for (std::int64_t all = 1; all <= 256; ++all)
    for (std::int64_t channels = 1; channels <= all; ++channels) {
      positions.rotary_percent = rotary_percent_of(channels, all);
      ASSERT_EQ(positions.rotated(all), channels) << all;
      ASSERT_LE(positions.rotary_percent, 1);
    }
}

}  // namespace
}  // namespace mt
