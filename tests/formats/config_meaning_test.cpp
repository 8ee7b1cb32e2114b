// What a config.json means to transformers, beyond what it says: other words for the same, defaults
// of its classes, and what scales rotary positions.  The frequencies are those that transformers
// 5.24.0 computes in float32.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "formats/hugging_face/hugging_face_config.h"
#include "nn/mlp.h"
#include "tests/formats/convert_support.h"

namespace mt {
namespace {

HuggingFaceConfig parse(const std::string& members) {
  HuggingFaceConfig config = parse_hugging_face_config("{" + members + "}", "c");
  config.model.complete();
  return config;
}
ModelConfig model_of(const std::string& members) { return parse(members).model; }

const std::string kLlama =
    R"("model_type":"llama","hidden_size":32,"num_attention_heads":2,"num_hidden_layers":1,)"
    R"("intermediate_size":8,"max_position_embeddings":64,"vocab_size":9)";

TEST(ConfigMeaning, OtherWordsForActivations) {
  for (const char* name :
       {"gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast", "gelu_accurate"})
    EXPECT_EQ(
        model_of(concat(R"("model_type":"gpt2","activation_function":")", name, '"')).activation(),
        Activation::gelu_tanh)
        << name;
  for (const char* name : {"gelu", "gelu_python"})
    EXPECT_EQ(
        model_of(concat(R"("model_type":"gpt2","activation_function":")", name, '"')).activation(),
        Activation::gelu_erf)
        << name;
  for (const char* name : {"silu", "swish"})
    EXPECT_EQ(model_of(concat(kLlama, R"(,"hidden_act":")", name, '"')).activation(),
              Activation::swiglu);
  for (const char* name : {"quick_gelu", "gelu_10", "mish", "relu"}) {
    EXPECT_NE(error_of([&] { model_of(concat(kLlama, R"(,"hidden_act":")", name, '"')); }), "");
    EXPECT_NE(error_of([&] {
                model_of(concat(R"("model_type":"gpt2","activation_function":")", name, '"'));
              }),
              "");
  }
}

// Its hidden_activation counts, and "gelu" of hidden_act means the tanh form.
TEST(ConfigMeaning, GemmasTwoActivations) {
  const std::string gemma = R"("model_type":"gemma")";
  for (const char* right : {"", R"(,"hidden_act":"gelu")", R"(,"hidden_act":"gelu_pytorch_tanh")",
                            R"(,"hidden_act":"gelu","hidden_activation":null)",
                            R"(,"hidden_act":"gelu","hidden_activation":"gelu_pytorch_tanh")",
                            R"(,"hidden_activation":"gelu_new")"})
    EXPECT_EQ(error_of([&] { model_of(gemma + right); }), "") << right;
  for (const char* wrong : {R"(,"hidden_activation":"gelu")", R"(,"hidden_act":"silu")"})
    EXPECT_NE(error_of([&] { model_of(gemma + wrong); }), "") << wrong;
}

TEST(ConfigMeaning, DefaultsOfTheClasses) {
  const auto sizes = [](const char* type) {
    const ModelConfig c = model_of(concat(R"("model_type":")", type, '"'));
    return std::vector<std::int64_t>{
        c.vocab_size,          c.num_layers, c.hidden_size, c.ffn(),
        c.num_attention_heads, c.kv_heads(), c.head_dim(),  c.max_position_embeddings};
  };
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(sizes("gpt2"), (Sizes{50257, 12, 768, 3072, 12, 12, 64, 1024}));
  EXPECT_EQ(sizes("llama"), (Sizes{32000, 32, 4096, 11008, 32, 32, 128, 2048}));
  EXPECT_EQ(sizes("mistral"), (Sizes{32000, 32, 4096, 14336, 32, 8, 128, 131072}));
  EXPECT_EQ(sizes("mixtral"), (Sizes{32000, 32, 4096, 14336, 32, 8, 128, 131072}));
  EXPECT_EQ(sizes("gemma"), (Sizes{256000, 28, 3072, 24576, 16, 16, 256, 8192}));
  EXPECT_EQ(sizes("qwen2"), (Sizes{151936, 32, 4096, 22016, 32, 32, 128, 32768}));
  EXPECT_EQ(sizes("qwen3"), (Sizes{151936, 32, 4096, 22016, 32, 32, 128, 32768}));
  EXPECT_EQ(sizes("nemotron"), (Sizes{256000, 32, 6144, 24576, 48, 48, 128, 4096}));
  const auto of = [](const char* type) { return model_of(concat(R"("model_type":")", type, '"')); };
  EXPECT_EQ(of("mixtral").norm_epsilon, 1e-5);
  EXPECT_EQ(of("mixtral").rotary_base, 1000000);
  EXPECT_EQ(of("mixtral").num_experts, 8);
  EXPECT_EQ(of("mistral").norm_epsilon, 1e-6);
  EXPECT_EQ(of("nemotron").init_method_std, 0.0134);
  EXPECT_EQ(of("nemotron").rotary_percent, 0.5);
  EXPECT_FALSE(of("gemma").untie_embeddings_and_output_weights);
  EXPECT_TRUE(of("llama").untie_embeddings_and_output_weights);
  // Null is not absent: as many groups as heads, and heads of hidden_size.
  const ModelConfig nulls = model_of(
      R"("model_type":"mistral","num_key_value_heads":null,"head_dim":null,"hidden_size":64)");
  EXPECT_EQ(nulls.kv_heads(), 32);
  EXPECT_EQ(nulls.head_dim(), 2);
}

// Whatever the rest is computed in, as the classes of transformers do.
TEST(ConfigMeaning, RoutersThatAreComputedInFp32) {
  const auto type_of = [](const std::string& type, const char* norm = "true") {
    return parse_hugging_face_config(concat(R"({"num_experts_per_tok":8,"norm_topk_prob":)", norm,
                                            R"(,"model_type":")", type, R"("})"),
                                     "c")
        .model.moe_router_dtype;
  };
  EXPECT_EQ(type_of("deepseek_v2", "false"), "fp32");
  for (const char* const type : {"deepseek_v3", "kimi_k2", "glm4_moe", "dots1", "glm4_moe_lite",
                                 "solar_open", "exaone_moe", "hy_v3"})
    EXPECT_EQ(type_of(type), "fp32") << type;
  for (const char* const type : {"mixtral", "qwen3_moe", "olmoe", "gpt_oss", "granitemoe",
                                 "granitemoeshared", "flex_olmo", "minimax_m2"})
    EXPECT_EQ(type_of(type), std::nullopt) << type;
  const ModelConfig nemotron =
      parse_hugging_face_config(
          hugging_face_config(config_named("hybrid_experts"), DType::bf16, ""), "c")
          .model;
  EXPECT_EQ(nemotron.moe_router_dtype, "fp32");
}

TEST(ConfigMeaning, TypesOfNumbers) {
  EXPECT_EQ(parse(kLlama).dtype, std::nullopt);
  EXPECT_EQ(parse(kLlama + R"(,"torch_dtype":null)").dtype, std::nullopt);
  EXPECT_EQ(parse(kLlama + R"(,"dtype":"auto")").dtype, std::nullopt);
  EXPECT_EQ(parse(kLlama + R"(,"torch_dtype":"torch.float16")").dtype, DType::f16);
  EXPECT_EQ(parse(kLlama + R"(,"dtype":"bfloat16")").dtype, DType::bf16);
}

// What nobody asks for may be a number of any size; what is asked for is the nearest double.
TEST(ConfigMeaning, NumbersOfAnySize) {
  const auto with = [](const std::string& members) { return model_of(kLlama + members); };
  const ModelConfig plain = with("");
  for (const char* const number :
       {"1000000000000000019884624838656", "-99999999999999999999", "1e400", "-1E+999", "1e-5000",
        "18446744073709551616.5", "Infinity", "NaN"})
    for (const auto& [before, behind] :
         {std::pair(R"(,"max_length":)", ""), {R"(,"task":{"deep":[1,)", "]}"}})
      EXPECT_EQ(differing_setting(plain, with(concat(before, number, behind))), nullptr) << number;
  EXPECT_EQ(with(R"(,"rope_theta":1000000000000000019884624838656)").rotary_base, 1e30);
  EXPECT_EQ(with(R"(,"rms_norm_eps":1e-400)").norm_epsilon, 0);
  for (const char* const wrong :
       {R"(,"vocab_size":99999999999999999999)", R"(,"hidden_size":1e400)",
        R"(,"num_attention_heads":18446744073709551617)", R"(,"num_hidden_layers":1e30)"})
    EXPECT_NE(error_of([&] { with(wrong); }), "") << wrong;
}

// Python says 4096.0 of what it has computed, and 1 of what is a real number.
TEST(ConfigMeaning, WholeNumbersAndRealOnesInEitherForm) {
  const auto with = [](const std::string& members) { return model_of(kLlama + members); };
  for (const char* const size : {"64", "64.0", "6.4e1", "640E-1"}) {
    const ModelConfig c = model_of(concat(
        R"("model_type":"mistral","hidden_size":)", size, R"(,"max_position_embeddings":)", size,
        R"(,"sliding_window":)", size, R"(,"vocab_size":)", size, R"(,"intermediate_size":)", size,
        R"(,"num_key_value_heads":8.0,"num_hidden_layers":2e0)"));
    for (const std::int64_t found :
         {c.hidden_size, c.max_position_embeddings, c.window(0) + 1, c.vocab_size, c.ffn()})
      EXPECT_EQ(found, 64) << size;
    EXPECT_EQ(c.kv_heads(), 8) << size;
    EXPECT_EQ(c.num_layers, 2) << size;
  }
  for (const char* const one : {"1", "1.0", "1e0", "10E-1"})
    EXPECT_EQ(with(concat(R"(,"rms_norm_eps":)", one)).norm_epsilon, 1) << one;
  EXPECT_EQ(with(R"(,"attention_dropout":0)").attention_dropout, 0);
  EXPECT_EQ(with(R"(,"rope_scaling":{"type":"linear","factor":2})").rotary_interpolation, 2);
  for (const char* const wrong : {"64.5", "-64.0", "1e10", "1e300", "\"64\"", "true"})
    EXPECT_NE(error_of([&] { with(concat(R"(,"num_key_value_heads":)", wrong)); }), "") << wrong;
}

TEST(ConfigMeaning, BasesOfRotaryPositions) {
  struct Base {
    const char* text;
    double number;
  };
  for (const Base& base :
       {Base{"10000", 1e4}, Base{"1e6", 1e6}, Base{"500000.0", 5e5}, Base{"10000.5", 10000.5},
        Base{"1", 1}, Base{"11293.722", 11293.722}, Base{"1e20", 1e20}}) {
    for (const std::string& members :
         {concat(R"(,"rope_theta":)", base.text),
          concat(R"(,"rope_parameters":{"rope_type":"default","rope_theta":)", base.text, "}"),
          concat(R"(,"rope_scaling":{"type":"linear","factor":1.0,"rope_theta":)", base.text,
                 "}")}) {
      const ModelConfig model = model_of(kLlama + members);
      EXPECT_EQ(model.rotary_base, base.number) << members;
      const std::string written = hugging_face_config(model, DType::f32, "");
      const ModelConfig again = parse_hugging_face_config(written, "again").model;
      EXPECT_EQ(again.rotary_base, base.number) << written;
      EXPECT_EQ(again.rotary_frequencies(), model.rotary_frequencies()) << written;
    }
  }
  for (const char* const wrong : {"0", "0.5", "-10000", "\"10000\"", "[10000]"})
    EXPECT_NE(error_of([&] { model_of(concat(kLlama, R"(,"rope_theta":)", wrong)); }), "") << wrong;
}

TEST(ConfigMeaning, BiasesOfSomeLayersAlone) {
  const HuggingFaceConfig attention = parse(kLlama + R"(,"attention_bias":true)"),
                          mlp = parse(kLlama + R"(,"mlp_bias":true)"),
                          both = parse(kLlama + R"(,"attention_bias":true,"mlp_bias":true)"),
                          none = parse(kLlama);
  for (const HuggingFaceConfig* config : {&attention, &mlp, &both})
    EXPECT_TRUE(config->model.add_bias_linear);
  EXPECT_TRUE(attention.lacking.mlp && !attention.lacking.attention);
  EXPECT_TRUE(mlp.lacking.attention && !mlp.lacking.mlp);
  EXPECT_FALSE(both.lacking.mlp || both.lacking.attention);
  EXPECT_FALSE(none.model.add_bias_linear || none.lacking.mlp || none.lacking.attention);
  EXPECT_EQ(attention.notes.size(), 1U);
  EXPECT_TRUE(none.notes.empty());
}

struct Scaling {
  const char* members;
  std::vector<double> frequencies;
  double attention;
};

// Five of each kind.
TEST(ConfigMeaning, ScaledRotaryPositions) {
  const std::vector<double> plain = {1.0,  0.3162278,   0.1,   0.03162278,
                                     0.01, 0.003162278, 0.001, 0.0003162278};
  const Scaling cases[] = {
      {R"("rope_scaling":{"rope_type":"yarn","factor":4.0})",
       {1.0, 0.2371708, 0.05, 0.007905695, 0.0025, 0.0007905695, 0.00025, 7.905695e-05},
       1.13862944},
      {R"("max_position_embeddings":2048,"rope_parameters":{"rope_type":"yarn","factor":16.0,)"
       R"("beta_fast":64,"beta_slow":2,"attention_factor":1.5,"rope_theta":10000.0})",
       {1.0, 0.3162278, 0.0765625, 0.0167996, 0.00296875, 0.0001976424, 6.25e-05, 1.976424e-05},
       1.5},
      {R"("rope_theta":500000.0,"rope_scaling":{"rope_type":"llama3","factor":32.0,)"
       R"("low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":64})",
       {1.0, 0.06713304, 0.001175188, 0.0002278958, 4.419417e-05, 8.570256e-06, 1.661967e-06,
        3.222933e-07},
       1},
      {R"("rope_scaling":{"rope_type":"llama3","factor":4.0,"low_freq_factor":2.0,)"
       R"("high_freq_factor":8.0,"original_max_position_embeddings":8192})",
       {1.0, 0.3162278, 0.1, 0.03162278, 0.01, 0.001629747, 0.00025, 7.905695e-05},
       1},
      {R"("rope_scaling":{"type":"linear","factor":4.0})",
       {0.25, 0.07905694, 0.025, 0.007905695, 0.0025, 0.0007905694, 0.00025, 7.905695e-05},
       1},
      {R"("rope_scaling":{"type":"dynamic","factor":4.0})", plain, 1},
      {R"("max_position_embeddings":4096,"rope_scaling":{"type":"longrope",)"
       R"("short_factor":[1,2,1,2,1,2,1,2],"long_factor":[9,9,9,9,9,9,9,9],)"
       R"("original_max_position_embeddings":64})",
       {1.0, 0.1581139, 0.1, 0.01581139, 0.01, 0.001581139, 0.001, 0.0001581139},
       1.41421356},
      {R"("rope_scaling":{"rope_type":"yarn","factor":8.0,)"
       R"("original_max_position_embeddings":32})",
       {1.0, 0.1778781, 0.0125, 0.003952847, 0.00125, 0.0003952847, 0.000125, 3.952847e-05},
       1.20794415},
      {R"("rope_theta":1000000.0,"rope_scaling":{"rope_type":"yarn","factor":40.0,)"
       R"("mscale":1.0,"mscale_all_dim":0.8})",
       {1.0, 0.09113682, 0.0007905695, 0.0001405853, 2.5e-05, 4.445698e-06, 7.905694e-07,
        1.405853e-07},
       1.05696626},
      {R"("rope_scaling":{"type":"yarn","factor":2.0,"truncate":false})",
       {1.0, 0.2377983, 0.05039683, 0.01581139, 0.005, 0.001581139, 0.0005, 0.0001581139},
       1.06931472},
      {R"("rope_theta":500000.0,"rope_scaling":{"rope_type":"llama3","factor":8.0,)"
       R"("low_freq_factor":1.0,"high_freq_factor":4.0,)"
       R"("original_max_position_embeddings":8192})",
       {1.0, 0.1939228, 0.03760603, 0.007292665, 0.000524846, 3.428102e-05, 6.64787e-06,
        1.289173e-06},
       1},
      {R"("rope_theta":1000000.0,"rope_scaling":{"type":"llama3","factor":16.0,)"
       R"("low_freq_factor":1.0,"high_freq_factor":2.0,)"
       R"("original_max_position_embeddings":128})",
       {1.0, 0.1778279, 0.001976424, 0.0003514633, 6.25e-05, 1.111425e-05, 1.976423e-06,
        3.514633e-07},
       1},
      {R"("rope_scaling":{"rope_type":"llama3","factor":1.5,"low_freq_factor":3.0,)"
       R"("high_freq_factor":3.5,"original_max_position_embeddings":1000})",
       {1.0, 0.3162278, 0.1, 0.03162278, 0.006666666, 0.002108185, 0.0006666667, 0.0002108185},
       1},
      {R"("rope_scaling":{"rope_type":"linear","factor":2.5})",
       {0.4, 0.1264911, 0.04, 0.01264911, 0.004, 0.001264911, 0.0004, 0.0001264911},
       1},
      {R"("rope_theta":500.0,"rope_scaling":{"type":"linear","factor":16.0})",
       {0.0625, 0.02874145, 0.01321714, 0.006078078, 0.002795085, 0.001285357, 0.0005910885,
        0.0002718199},
       1},
      {R"("rope_scaling":{"rope_type":"linear","factor":1.0})", plain, 1},
      {R"("rope_parameters":{"rope_type":"linear","factor":8.0,"rope_theta":77.0})",
       {0.125, 0.07262709, 0.04219756, 0.02451749, 0.01424507, 0.008276626, 0.004808858,
        0.002794027},
       1},
      {R"("rope_scaling":{"rope_type":"dynamic","factor":2.0})", plain, 1},
      {R"("rope_theta":300.0,"rope_scaling":{"type":"dynamic","factor":1.5})",
       {1.0, 0.4901848, 0.2402811, 0.1177822, 0.05773502, 0.02830083, 0.01387264, 0.006800157},
       1},
      {R"("rope_parameters":{"rope_type":"dynamic","factor":3.0,"rope_theta":50000.0})",
       {1.0, 0.2586001, 0.06687403, 0.01729363, 0.004472136, 0.001156495, 0.0002990698,
        7.733948e-05},
       1},
      {R"("rope_scaling":{"type":"dynamic","factor":1.0})", plain, 1},
      {R"("max_position_embeddings":512,"rope_scaling":{"rope_type":"longrope",)"
       R"("short_factor":[1,1,1,1,1,1,1,1],"long_factor":[9,9,9,9,9,9,9,9],)"
       R"("original_max_position_embeddings":512})",
       plain, 1},
      {R"("max_position_embeddings":256,"rope_scaling":{"rope_type":"longrope",)"
       R"("short_factor":[1,1.5,2,2.5,3,3.5,4,4.5],"long_factor":[9,9,9,9,9,9,9,9],)"
       R"("factor":4.0,"original_max_position_embeddings":64})",
       {1.0, 0.2108185, 0.05, 0.01264911, 0.003333333, 0.0009035079, 0.00025, 7.027284e-05},
       1.15470054},
      {R"("max_position_embeddings":4096,"rope_scaling":{"rope_type":"longrope",)"
       R"("short_factor":[2,2,2,2,1,1,1,1],"long_factor":[9,9,9,9,9,9,9,9],)"
       R"("attention_factor":1.25,"original_max_position_embeddings":64})",
       {0.5, 0.1581139, 0.05, 0.01581139, 0.01, 0.003162278, 0.001, 0.0003162278},
       1.25},
      {R"("max_position_embeddings":1024,"rope_theta":1000.0,)"
       R"("rope_scaling":{"type":"longrope","short_factor":[1,1,1,1,1,1,1,8],)"
       R"("long_factor":[9,9,9,9,9,9,9,9],"original_max_position_embeddings":128})",
       {1.0, 0.4216965, 0.1778279, 0.07498942, 0.03162278, 0.01333521, 0.005623413, 0.0002964217},
       1.19522861},
  };
  const std::string head = kLlama.substr(0, kLlama.find("\"max_position"));
  for (const Scaling& wanted : cases) {
    SCOPED_TRACE(wanted.members);
    const bool positions = std::string(wanted.members).starts_with("\"max_pos");
    const ModelConfig model =
        model_of(concat(head, R"("vocab_size":9,)",
                        positions ? "" : R"("max_position_embeddings":64,)", wanted.members));
    const std::vector<double> found = model.rotary_frequencies();
    ASSERT_EQ(found.size(), wanted.frequencies.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i] / wanted.frequencies[i], 1, 1e-6) << i;
    EXPECT_NEAR(model.rope_attention_factor, wanted.attention, 1e-8);
  }
}

// rope_scaling, which people add by hand, goes before rope_parameters, and what is said of
// original positions outside of it before what is said inside.
TEST(ConfigMeaning, WhichScalingCounts) {
  const std::string linear = R"(,"rope_scaling":{"type":"linear","factor":4.0})",
                    saved = R"(,"rope_parameters":{"rope_type":"default","rope_theta":500.0})";
  const ModelConfig both = model_of(kLlama + saved + linear);
  EXPECT_EQ(both.rotary_interpolation, 4);
  EXPECT_EQ(both.rotary_base, 10000);
  EXPECT_EQ(model_of(kLlama + saved + R"(,"rope_theta":77.0)" + linear).rotary_base, 77);
  for (const char* const none : {R"(,"rope_scaling":null)", R"(,"rope_scaling":{})", ""}) {
    const ModelConfig one = model_of(kLlama + none + saved);
    EXPECT_FALSE(one.rotary_interpolation);
    EXPECT_EQ(one.rotary_base, 500);
  }
  const auto yarn = [](const char* outside, const char* inside) {
    return model_of(concat(kLlama, outside, R"(,"rope_scaling":{"rope_type":"yarn","factor":4.0)",
                           inside, "}"))
        .rope_frequency_factors;
  };
  const char *const outside = R"(,"original_max_position_embeddings":16)",
                    *const inside = R"(,"original_max_position_embeddings":32)";
  EXPECT_EQ(yarn(outside, inside), yarn(outside, ""));
  EXPECT_NE(yarn(outside, inside), yarn("", inside));
  // The one that counts is written again, too.
  const std::string members = concat(
      kLlama, R"(,"rope_parameters":{"rope_type":"yarn","factor":8.0,"rope_theta":500.0})", linear);
  const std::string again =
      hugging_face_config(model_of(members), DType::f32, concat("{", members, "}"));
  EXPECT_EQ(parse_hugging_face_config(again, "again").model.rotary_interpolation, 4);
}

TEST(ConfigMeaning, WhatAClassHasNotIsPassedOver) {
  const auto of = [](const std::string& type, const std::string& member) {
    std::string text = concat(kLlama, R"(,"num_key_value_heads":2)", member);
    return parse(text.replace(text.find("llama"), 5, type));
  };
  const std::string part = R"(,"partial_rotary_factor":0.25)";
  for (const char* const type : {"llama", "mistral", "qwen2", "qwen3"}) {
    const HuggingFaceConfig config = of(type, part);
    EXPECT_EQ(config.model.rotary_percent, 1) << type;
    EXPECT_EQ(config.notes.size(), 1U) << type;
  }
  EXPECT_EQ(of("nemotron", part).model.rotary_percent, 0.25);
  for (const char* const type : {"mistral", "mixtral", "qwen2"})
    EXPECT_FALSE(of(type, R"(,"attention_bias":true,"mlp_bias":true)").model.add_bias_linear);
  EXPECT_NE(error_of([&] { of("qwen3", R"(,"attention_bias":true)"); }), "");
  EXPECT_FALSE(of("qwen3", R"(,"mlp_bias":true)").model.add_bias_linear);
}

// What a class would say by default counts where nothing is said, and null is no.
TEST(ConfigMeaning, DefaultsOfClassesAndNull) {
  const std::string latent = R"("model_type":"deepseek_v3")";
  EXPECT_EQ(error_of([&] { parse(latent + R"(,"head_dim":64)"); }), "");
  EXPECT_EQ(error_of([&] { parse(latent + R"(,"head_dim":32)"); }),
            "65 c: \"head_dim\" is 32, expected 64");
  for (const char* const name : {"norm_topk_prob", "rope_interleave"})
    EXPECT_EQ(error_of([&] { parse(concat(latent, ",\"", name, "\":null")); }),
              concat("65 c: \"", name, "\" is false, which is not supported"));
  const auto magnitude = [](const char* outside) {
    return parse(concat(R"("model_type":"phi3","hidden_size":12,"num_attention_heads":3,)"
                        R"("max_position_embeddings":16384)",
                        outside,
                        R"(,"rope_scaling":{"type":"longrope","short_factor":[1,1],)"
                        R"("long_factor":[1,1],"original_max_position_embeddings":16})"))
        .model.rope_attention_factor;
  };
  EXPECT_EQ(magnitude(""), magnitude(R"(,"original_max_position_embeddings":4096)"));
  EXPECT_NE(magnitude(""), magnitude(R"(,"original_max_position_embeddings":16)"));
  ModelConfig whole = model_of(R"("model_type":"nemotron","partial_rotary_factor":1.0)");
  whole.complete();
  const std::string written = hugging_face_config(whole, DType::f32, "");
  EXPECT_EQ(parse_hugging_face_config(written, "again").model.rotary_percent, 1);
}

// Since its 5th generation transformers makes what sees the tokens behind it, too, of any decoder.
TEST(ConfigMeaning, WhatIsNotCausalIsRefused) {
  for (const char* const type : {"llama", "gpt2", "gemma2", "mixtral", "mamba2", "bamba"}) {
    const std::string head = concat(R"("model_type":")", type, "\",");
    EXPECT_EQ(error_of([&] { parse(head + R"("is_causal":true)"); }), "") << type;
    for (const char* const value : {"false", "null"})
      EXPECT_EQ(error_of([&] { parse(concat(head, R"("is_causal":)", value)); }),
                "65 c: \"is_causal\" is not true, which is not supported")
          << type;
  }
}

TEST(ConfigMeaning, ActivationsOfT5AreSaidTwice) {
  const auto of = [](const std::string& members) {
    return error_of([&] { parse(R"("model_type":"t5","tie_word_embeddings":false,)" + members); });
  };
  for (const char* const right :
       {R"("feed_forward_proj":"gated-gelu","dense_act_fn":"gelu_new","is_gated_act":true)",
        R"("feed_forward_proj":"relu","dense_act_fn":"relu","is_gated_act":false)",
        R"("feed_forward_proj":"gated-silu","dense_act_fn":"silu")",
        R"("feed_forward_proj":"gelu","dense_act_fn":"gelu")", R"("is_gated_act":false)"})
    EXPECT_EQ(of(right), "") << right;
  for (const char* const wrong :
       {R"("feed_forward_proj":"gated-gelu","dense_act_fn":"gelu")", R"("dense_act_fn":"gelu_new")",
        R"("feed_forward_proj":"gated-gelu","is_gated_act":false)", R"("is_gated_act":true)",
        R"("feed_forward_proj":"gelu","dense_act_fn":"relu")"})
    EXPECT_NE(of(wrong), "") << wrong;
}

// They are refused before anything is made for each of them.
TEST(ConfigMeaning, TooManyLayersTakeNoMemory) {
  for (const char* const type : {"qwen2", "qwen2_moe", "gemma2", "cohere2", "smollm3"})
    EXPECT_EQ(error_of([&] {
                model_of(concat(R"("model_type":")", type,
                                R"(","use_sliding_window":true,"num_hidden_layers":2147483647)"));
              }),
              "78 --num-layers 2147483647: expected 1 to 4096")
        << type;
}

TEST(ConfigMeaning, Gpt2TakesTheNamesOfOthers) {
  const ModelConfig model = model_of(
      R"("model_type":"gpt2","hidden_size":12,"num_attention_heads":3,"num_hidden_layers":2,)"
      R"("max_position_embeddings":5,"n_embd":8,"n_head":2)");
  EXPECT_EQ(model.hidden_size, 12);
  EXPECT_EQ(model.num_attention_heads, 3);
  EXPECT_EQ(model.num_layers, 2);
  EXPECT_EQ(model.max_position_embeddings, 5);
}

// Longer texts have other frequencies, which ours has not.
TEST(ConfigMeaning, LongropeIsOfShorterTexts) {
  const HuggingFaceConfig config =
      parse(kLlama + R"(,"original_max_position_embeddings":16,"rope_scaling":{"type":"su",)"
                     R"("short_factor":[1,1,1,1,1,1,1,1],"long_factor":[9,9,9,9,9,9,9,9]})");
  EXPECT_EQ(config.model.max_position_embeddings, 16);
  EXPECT_EQ(config.notes.size(), 1U);
  EXPECT_EQ(
      error_of([] { parse(kLlama + R"(,"rope_scaling":{"type":"longrope","short_factor":[1]})"); }),
      "65 c: rope_scaling: \"short_factor\": are 1, expected 8");
}

// The way back says it in the words that it was read in, or, once it is changed, in our own.
TEST(ConfigMeaning, ScalingIsGivenBack) {
  const std::string longrope =
      R"({"type":"longrope","short_factor":[1,1,1,1,1,1,1,2],"long_factor":[9,9,9,9,9,9,9,9],)"
      R"("original_max_position_embeddings":16})";
  for (const std::string& scaling :
       {std::string(R"({"rope_type":"yarn","factor":4.0,"beta_fast":16})"),
        std::string(R"({"type":"dynamic","factor":2.0})"), longrope}) {
    const std::string original = concat("{", kLlama, R"(,"rope_scaling":)", scaling, "}");
    ModelConfig model = parse_hugging_face_config(original, "c").model;
    model.complete();
    const std::string back = hugging_face_config(model, DType::f32, original);
    EXPECT_NE(back.find(concat(R"("rope_scaling":)", scaling)), std::string::npos) << back;
    EXPECT_NE(back.find(R"("max_position_embeddings":64)"), std::string::npos) << back;
    model.max_position_embeddings = 8;
    ModelConfig again =
        parse_hugging_face_config(hugging_face_config(model, DType::f32, original), "c").model;
    again.complete();
    EXPECT_EQ(again.rotary_frequencies(), model.rotary_frequencies());
    EXPECT_EQ(again.rope_attention_factor, model.rope_attention_factor);
    EXPECT_EQ(again.max_position_embeddings, 8);
  }
}

TEST(ConfigMeaning, TokensThatEndATextAreOneOrMore) {
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(token_ids_at("eos_token_id", "{}", "c"), Ids{});
  EXPECT_EQ(token_ids_at("eos_token_id", R"({"eos_token_id":null})", "c"), Ids{});
  EXPECT_EQ(token_ids_at("eos_token_id", R"({"eos_token_id":7})", "c"), (Ids{7}));
  EXPECT_EQ(token_ids_at("eos_token_id", R"({"eos_token_id":[7,9]})", "c"), (Ids{7, 9}));
  EXPECT_EQ(token_ids_at("eos_token_id", R"({"eos_token_id":[],"x":Infinity})", "c"), Ids{});
}

}  // namespace
}  // namespace mt
