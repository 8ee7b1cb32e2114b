// What follows from a GPT's settings, and which settings do not fit together.
#include "model/gpt_config.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/model/support.h"

namespace mt {
namespace {

TEST(GptConfig, PadsTheVocabulary) {
  GptConfig c = tiny_gpt2();
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

TEST(GptConfig, DerivesTheMlpsWidth) {
  GptConfig c = tiny_gpt2();
  c.hidden_size = 4096;
  EXPECT_EQ(c.ffn(), 16384);
  c.swiglu = true;
  EXPECT_EQ(c.ffn(), 10880);
  c.hidden_size = 5120;
  EXPECT_EQ(c.ffn(), 13632);
  c.ffn_hidden_size = 7;
  EXPECT_EQ(c.ffn(), 7);
}

TEST(GptConfig, ChoosesTheActivation) {
  GptConfig c = tiny_gpt2();
  EXPECT_EQ(c.activation(), Activation::gelu_tanh);
  c.bias_gelu_fusion = false;
  EXPECT_EQ(c.activation(), Activation::gelu_erf);
  c.bias_gelu_fusion = true;
  c.add_bias_linear = false;
  EXPECT_EQ(c.activation(), Activation::gelu_erf);
  c.swiglu = true;
  EXPECT_EQ(c.activation(), Activation::swiglu);
}

struct Mistake {
  const char* option;  // that the line must start with
  void (*make)(GptConfig&);
  Exit code = Exit::bad_config;
};

TEST(GptConfig, NamesTheOptionThatIsMissing) {
  const Mistake mistakes[] = {
      {"--num-layers: required", [](GptConfig& c) { c.num_layers = 0; }},
      {"--hidden-size: required", [](GptConfig& c) { c.hidden_size = 0; }},
      {"--num-attention-heads: required", [](GptConfig& c) { c.num_attention_heads = 0; }},
      {"--max-position-embeddings: required", [](GptConfig& c) { c.max_position_embeddings = 0; }},
      {"--vocab-size: required", [](GptConfig& c) { c.vocab_size = 0; }},
  };
  for (const Mistake& mistake : mistakes) {
    GptConfig c = tiny_llama();
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

TEST(GptConfig, NamesTheOptionThatDoesNotFit) {
  const Mistake mistakes[] = {
      {"--hidden-size 18: not a multiple of --num-attention-heads 4",
       [](GptConfig& c) { c.hidden_size = 18; }},
      {"--num-query-groups 3: does not divide --num-attention-heads 4",
       [](GptConfig& c) { c.num_query_groups = 3; }},
      {"--rotary-percent 0.3: rotates 1 of 4 channels",
       [](GptConfig& c) { c.rotary_percent = 0.3; }},
      {"the vocabulary of 25 tokens is larger than the model's 24",
       [](GptConfig& c) { c.vocab_size = 25; }},
      // What options cannot say but a damaged checkpoint can.
      {"--num-layers -1: ", [](GptConfig& c) { c.num_layers = -1; }},
      {"--num-layers 9223372036854775807: ",
       [](GptConfig& c) { c.num_layers = std::numeric_limits<std::int64_t>::max(); }},
      {"--hidden-size -16: ", [](GptConfig& c) { c.hidden_size = -16; }},
      {"--hidden-size 4611686018427387904: ",
       [](GptConfig& c) { c.hidden_size = std::int64_t{1} << 62; }},
      {"--num-attention-heads -4: ", [](GptConfig& c) { c.num_attention_heads = -4; }},
      {"--num-query-groups 0: ", [](GptConfig& c) { c.num_query_groups = 0; }},
      {"--kv-channels 0: ", [](GptConfig& c) { c.kv_channels = 0; }},
      {"--kv-channels 1099511627776: ",
       [](GptConfig& c) { c.kv_channels = std::int64_t{1} << 40; }},
      {"--ffn-hidden-size 0: ", [](GptConfig& c) { c.ffn_hidden_size = 0; }},
      {"--max-position-embeddings -1: ", [](GptConfig& c) { c.max_position_embeddings = -1; }},
      {"--vocab-size 4294967296: ",
       [](GptConfig& c) { c.vocab_size = c.padded_vocab_size = std::int64_t{1} << 32; }},
      {"--make-vocab-size-divisible-by 0: ",
       [](GptConfig& c) { c.make_vocab_size_divisible_by = c.padded_vocab_size = 0; }},
      {"--rotary-base 0: ", [](GptConfig& c) { c.rotary_base = 0; }},
      {"--rotary-percent nan: ",
       [](GptConfig& c) { c.rotary_percent = std::numeric_limits<double>::quiet_NaN(); }},
      {"--rotary-percent 1.5: ", [](GptConfig& c) { c.rotary_percent = 1.5; }},
      {"--norm-epsilon -1: ", [](GptConfig& c) { c.norm_epsilon = -1; }},
      {"--attention-dropout 1: ", [](GptConfig& c) { c.attention_dropout = 1; }},
      {"--hidden-dropout -0.5: ", [](GptConfig& c) { c.hidden_dropout = -0.5; }},
      {"--position-embedding-type relative: ",
       [](GptConfig& c) { c.position_embedding_type = "relative"; }},
      {"--normalization L2Norm: ", [](GptConfig& c) { c.normalization = "L2Norm"; }},
  };
  for (const Mistake& mistake : mistakes) {
    GptConfig c = tiny_llama();
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

}  // namespace
}  // namespace mt
