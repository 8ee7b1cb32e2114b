// The whole model: gradients, saving, stages that make one model, sizes and FLOPs.
#include "model/families/gpt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "model/model_table.h"
#include "tests/model/support.h"
#include "tests/support/derivative.h"

namespace mt {
namespace {

struct NamedConfig {
  const char* name;
  ModelConfig config;
};
void PrintTo(const NamedConfig& c, std::ostream* out) { *out << c.name; }
std::string name_of_case(const testing::TestParamInfo<NamedConfig>& info) {
  return info.param.name;
}

ModelConfig with_latent_epsilon(double epsilon) {
  ModelConfig c = tiny_latent();
  c.latent_norm_epsilon = epsilon;
  c.complete();
  return c;
}

std::vector<NamedConfig> configs() {
  ModelConfig erf = tiny_gpt2();
  erf.bias_gelu_fusion = false;
  ModelConfig without_positions = tiny_llama();
  without_positions.position_embedding_type = "none";
  ModelConfig normed = tiny_gpt2();  // with what GPT-2 and Llama lack
  normed.position_embedding_type = "rope";
  normed.rotary_percent = 0.5;
  normed.rotary_interleaved = true;
  normed.rotary_interpolation = 2;
  normed.qk_layernorm = normed.apply_layernorm_1p = true;
  normed.complete();
  ModelConfig windowed = tiny_llama();
  windowed.kv_channels = 6;
  windowed.qk_layernorm = windowed.use_rope_scaling = true;
  windowed.window_size = "2,0";
  windowed.window_attn_skip_freq = {2};
  windowed.label_smoothing = 0.1;
  windowed.complete();
  ModelConfig wide_routers = tiny_mixtral();
  wide_routers.moe_router_dtype = "fp64";
  ModelConfig norms_behind = tiny_mixtral();
  norms_behind.pre_layernorm = false;
  norms_behind.moe_router_topk = norms_behind.num_experts;  // so that no small step changes them
  norms_behind.post_layernorm = norms_behind.qk_layernorm = norms_behind.qk_layernorm_whole = true;
  norms_behind.complete();
  ModelConfig hybrid = tiny_hybrid();
  hybrid.squared_relu = false;  // which has no third derivative
  return {{"gpt2", tiny_gpt2()},
          {"normed", normed},
          {"windowed", windowed},
          {"gpt2_with_dropout", with_dropout(tiny_gpt2())},
          {"gpt2_gelu_erf", erf},
          {"llama", tiny_llama()},
          {"llama_with_dropout", with_dropout(tiny_llama())},
          {"mixtral", tiny_mixtral()},
          {"mixtral_with_wide_routers", wide_routers},
          {"experts_with_norms_behind", norms_behind},
          {"experts_with_norms_behind_and_dropout", with_dropout(norms_behind)},
          {"gelu_experts", tiny_gelu_experts()},
          {"biased_experts", tiny_biased_experts()},
          {"gpt_oss", tiny_gpt_oss()},
          {"latent", tiny_latent()},
          {"latent_with_dropout", with_dropout(tiny_latent())},
          {"latent_with_an_epsilon", with_latent_epsilon(0.1)},
          {"latent_experts", tiny_latent_experts()},
          {"further_tokens", further(tiny_llama(), 2)},
          {"further_tokens_with_dropout", further(with_dropout(tiny_llama()), 1)},
          {"further_tokens_of_latent_experts", further(tiny_latent_experts(), 1)},
          {"mamba", tiny_hybrid("MM")},
          {"hybrid_with_dropout", with_dropout(hybrid)},
          {"llama_without_positions", without_positions}};
}

class EveryGpt : public testing::TestWithParam<NamedConfig> {
 protected:
  const ModelConfig& config() const { return GetParam().config; }

  // Gradients by parameter of one model equal those of another that holds them too.
  static void expect_gradients_near(ModelBench& got, ModelBench& expected, double tolerance) {
    for (const Param& row : got.table().rows()) {
      if (row.shared) continue;
      EXPECT_TENSORS_NEAR(row.grad, expected.table().at(row.name()).grad, tolerance) << row.name();
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Of, EveryGpt, testing::ValuesIn(configs()), name_of_case);

// Where it is none of its own, it is that of all norms.
TEST(Gpt, LatentsHaveAnEpsilonOfTheirOwn) {
  const auto loss_with = [](double epsilon) {
    ModelBench bench(with_latent_epsilon(epsilon), DType::f64);
    return bench.evaluate();
  };
  const double usual = tiny_latent().norm_epsilon;
  EXPECT_EQ(with_latent_epsilon(usual).latent_norm_epsilon, 0);
  EXPECT_EQ(loss_with(0), loss_with(usual));
  EXPECT_NE(loss_with(0), loss_with(2 * usual));
}

TEST_P(EveryGpt, BackwardIsTheDerivativeOfTheObjective) {
  ModelBench bench(config(), DType::f64);
  bench.forward_and_backward();
  for (Param& row : bench.table().rows())
    expect_gradient(
        row.grad, row.value, [&] { return bench.evaluate(); }, 9, row.name());
}

// With each row alone, and with the lower part of the model.
TEST_P(EveryGpt, FrozenRowsHaveNoGradientAndChangeNoOther) {
  ModelBench all(config(), DType::f64), bench(config(), DType::f64);
  all.forward_and_backward();
  for (std::size_t alone = 0; alone <= bench.table().rows().size(); ++alone) {
    ParamTable& table = bench.table();
    for (Param& row : table.rows())
      row.trainable = alone < table.rows().size()
                          ? row.index != alone
                          : row.place.stack != "embedding" && row.place.layer != 0;
    table.allocate(Device::cpu, DType::f64, true);
    Stream stream(Device::cpu);
    bench.model().initialize(7, stream);
    bench.forward({});
    bench.backward({});
    for (Param& row : table.rows()) {
      EXPECT_EQ(bool(row.grad), row.trainable);
      if (!row.trainable) continue;
      EXPECT_SAME_BITS(row.grad, all.table().at(row.name()).grad) << row.name();
    }
  }
  for (Param& row : bench.table().rows())
    if (row.trainable)
      expect_gradient(
          row.grad, row.value, [&] { return bench.evaluate(); }, 9, row.name());
}

TEST_P(EveryGpt, EvaluationAndTrainingHaveTheSameLossBitForBit) {
  ModelBench bench(config(), DType::f32);
  bench.evaluate();
  const HostTensor loss = clone(bench.loss().view());
  bench.forward_and_backward();
  EXPECT_SAME_BITS(bench.loss().view(), loss);
}

TEST_P(EveryGpt, DeferredWeightGradientsHaveTheSameBits) {
  ModelBench bench(config(), DType::f32), deferring(config(), DType::f32, true);
  bench.forward_and_backward();
  deferring.forward_and_backward();
  EXPECT_SAME_BITS(gradients_of(deferring.table()), gradients_of(bench.table()));
}

TEST_P(EveryGpt, Float32IsNearFloat64) {
  ModelBench single(config(), DType::f32), precise(config(), DType::f64);
  for (Param& row : single.table().rows()) {  // the same weights
    Tensor& other = precise.table().at(row.name()).value;
    fill_with(other, [&](std::int64_t i) { return element(row.value, i); });
  }
  single.forward_and_backward();
  precise.forward_and_backward();
  EXPECT_NEAR(single.objective(), precise.objective(), 1e-6 * precise.objective());
  for (const Param& row : single.table().rows()) {
    const Tensor& expected = precise.table().at(row.name()).grad;
    for (std::int64_t i = 0; i < expected.numel(); ++i)
      ASSERT_NEAR(element(row.grad, i), element(expected, i), 1e-5 * largest(expected))
          << row.name() << " " << i;
  }
}

TEST_P(EveryGpt, OutsideOfTheMaskNothingCounts) {
  ModelBench bench(config(), DType::f64);
  fill_with(bench.row_weight(), [](std::int64_t i) { return i < ModelBench::kLength ? 0.1 : 0; });
  bench.forward_and_backward();
  const HostTensor gradients = clone(gradients_of(bench.table()));
  for (std::int64_t i = ModelBench::kLength; i < ModelBench::kTokens; ++i)
    bench.ids().view().as<std::int32_t>()[i] = 1;  // the second sequence is another one
  bench.forward_and_backward();
  EXPECT_TENSORS_NEAR(gradients_of(bench.table()), gradients, 1e-14);
}

// The initial weights and dropout's masks are functions of names and places, so the stages need no
// more than their own range to be the same model.
TEST_P(EveryGpt, TwoStagesAreTheModel) {
  ModelConfig untied = config();
  untied.untie_embeddings_and_output_weights = true;
  ModelBench whole(untied, DType::f64), first(untied, {0, 1, true, false}, DType::f64),
      last(untied, {1, untied.num_layers, false, true}, DType::f64);
  EXPECT_EQ(first.table().count() + last.table().count(), whole.table().count());
  whole.forward_and_backward();
  last.forward(first.forward({}));
  first.backward(last.backward({}));
  EXPECT_TENSORS_NEAR(last.loss().view(), whole.loss().view(), 1e-12);
  expect_gradients_near(first, whole, 1e-12);
  expect_gradients_near(last, whole, 1e-12);
  for (const Param& row : first.table().rows()) {
    if (!row.shared) continue;  // each has a part of its gradient
    const Tensor &one = row.grad, &other = last.table().at(row.name()).grad,
                 &all = whole.table().at(row.name()).grad;
    for (std::int64_t i = 0; i < all.numel(); ++i)
      ASSERT_NEAR(element(one, i) + element(other, i), element(all, i), 1e-12) << row.name();
  }
}

// Routers compute in f32 and f64 where all else does already, and otherwise not.
TEST(GptRouters, OfATypeThatAllElseHasChangeNoBit) {
  const auto gradients = [](DType dtype, const std::optional<std::string>& type) {
    ModelConfig c = tiny_mixtral();
    c.moe_router_dtype = type;
    ModelBench bench(c, dtype);
    bench.forward_and_backward();
    return clone(gradients_of(bench.table()));
  };
  const HostTensor single = gradients(DType::f32, {}), precise = gradients(DType::f64, {});
  EXPECT_SAME_BITS(gradients(DType::f32, "fp32").view(), single);
  EXPECT_SAME_BITS(gradients(DType::f64, "fp32").view(), precise);
  EXPECT_SAME_BITS(gradients(DType::f64, "fp64").view(), precise);
  EXPECT_FALSE(same_bits("", "", gradients(DType::f32, "fp64"), single));
}

// What a probe says of a step in which one number was replaced.
std::string first_non_finite(const std::function<void(ModelBench&)>& spoil) {
  ModelBench bench(tiny_llama(), DType::f32);
  spoil(bench);
  NonFiniteProbe probe;
  bench.set_probe(&probe);
  bench.forward_and_backward();
  Stream stream(Device::cpu);
  probe.look_at_gradients(bench.table(), stream);
  return probe.first() ? concat(probe.first()->parameter, ": ", probe.first()->what) : "";
}

TEST(GptProbe, NamesTheFirstModule) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(first_non_finite([](ModelBench&) {}), "");
  for (const char* name : {"decoder.layers.1.mlp.linear_fc1.weight",
                           "decoder.layers.0.self_attention.linear_qkv.layer_norm_weight",
                           "decoder.layers.1.self_attention.linear_proj.weight",
                           "embedding.word_embeddings.weight", "decoder.final_layernorm.weight"})
    EXPECT_EQ(first_non_finite(
                  [&](ModelBench& bench) { bench.table().at(name).value.as<float>()[5] = kNan; }),
              concat(name, ": output"));
  // Finite products whose SwiGLU is not.
  EXPECT_EQ(first_non_finite([](ModelBench& bench) {
              fill_with(bench.table().at("decoder.layers.1.mlp.linear_fc1.weight").value,
                        [](std::int64_t i) { return i % 3 == 0 ? 1e30 : -1e30; });
            }),
            "decoder.layers.1.mlp.linear_fc2.weight: input");
  EXPECT_EQ(first_non_finite([](ModelBench& bench) { bench.row_weight().span<float>()[3] = kNan; }),
            "output_layer.weight: gradient of its input");
}

TEST(GptInitialization, GlorotsRule) {
  ModelConfig config = tiny_gpt2();
  config.hidden_size = 128;
  config.init_method_std = 0.02;
  config.init_method_xavier_uniform = true;
  config.complete();
  Gpt model(config);
  Stream stream(Device::cpu);
  model.table().allocate(Device::cpu, DType::f64, false);
  model.initialize(3, stream);
  const auto value = [&](const std::string& name) { return model.table().at(name).value; };
  const auto deviation = [&](const std::string& name) {
    return std::sqrt(dot_of(value(name), value(name)) / static_cast<double>(value(name).numel()));
  };
  const std::string fc1 = "decoder.layers.1.mlp.linear_fc1.weight";
  EXPECT_NEAR(deviation(fc1), std::sqrt(2.0 / (128 + 512)), 5e-4);
  EXPECT_LE(largest(value(fc1)), std::sqrt(6.0 / (128 + 512)));
  EXPECT_GE(largest(value(fc1)), 0.999 * std::sqrt(6.0 / (128 + 512)));
  EXPECT_NEAR(deviation("embedding.word_embeddings.weight"), std::sqrt(2.0 / (128 + 24)), 2e-3);
  EXPECT_NEAR(deviation("decoder.layers.1.mlp.linear_fc2.weight"), 0.01, 1e-4);
}

TEST(GptInitialization, StandardDeviationsFollowTheKind) {
  ModelConfig config = tiny_gpt2();
  config.hidden_size = 128;
  config.num_layers = 8;
  config.init_method_std = 0.02;
  config.complete();
  Gpt model(config);
  Stream stream(Device::cpu);
  model.table().allocate(Device::cpu, DType::f64, false);
  model.initialize(3, stream);
  const auto deviation = [&](const std::string& name) {
    const Tensor& value = model.table().at(name).value;
    return std::sqrt(dot_of(value, value) / static_cast<double>(value.numel()));
  };
  EXPECT_NEAR(deviation("decoder.layers.3.self_attention.linear_qkv.weight"), 0.02, 4e-4);
  EXPECT_NEAR(deviation("decoder.layers.3.self_attention.linear_proj.weight"), 0.005, 2e-4);
  EXPECT_NEAR(deviation("decoder.layers.3.mlp.linear_fc2.weight"), 0.005, 1e-4);
  EXPECT_EQ(deviation("decoder.layers.3.mlp.linear_fc2.bias"), 0);
  EXPECT_EQ(deviation("decoder.final_layernorm.weight"), 1);
}

// --- Sizes
// ----------------------------------------------------------------------------------------

ModelConfig sized(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                  std::int64_t positions, std::int64_t vocab) {
  ModelConfig c;
  c.num_layers = layers;
  c.hidden_size = hidden;
  c.num_attention_heads = heads;
  c.max_position_embeddings = positions;
  c.vocab_size = vocab;
  c.complete();
  return c;
}

ModelConfig llama3_8b() {
  ModelConfig c = sized(32, 4096, 32, 8192, 128256);
  c.ffn_hidden_size = 14336;
  c.group_query_attention = true;
  c.num_query_groups = 8;
  c.position_embedding_type = "rope";
  c.rotary_base = 500000;
  c.normalization = "RMSNorm";
  c.swiglu = true;
  c.add_bias_linear = false;
  c.untie_embeddings_and_output_weights = true;
  c.complete();
  return c;
}

TEST(GptSizes, Parameters) {
  EXPECT_EQ(Gpt(sized(24, 1024, 16, 1024, 50257)).table().count(), 354871296);
  EXPECT_EQ(Gpt(sized(96, 12288, 96, 2048, 51200)).table().count(), 174615846912);
  EXPECT_EQ(Gpt(llama3_8b()).table().count(), 8030261248);
}

TEST(GptSizes, OptionalParameters) {
  ModelConfig qwen3 = sized(28, 1024, 16, 4096, 151936);  // 0.6B
  qwen3.kv_channels = 128;
  qwen3.ffn_hidden_size = 3072;
  qwen3.group_query_attention = true;
  qwen3.num_query_groups = 8;
  qwen3.position_embedding_type = "rope";
  qwen3.normalization = "RMSNorm";
  qwen3.swiglu = qwen3.qk_layernorm = true;
  qwen3.add_bias_linear = false;
  qwen3.complete();
  EXPECT_EQ(Gpt(qwen3).table().count(), 596049920);
  const auto count = [](const ModelConfig& config) { return Gpt(config).table().count(); };
  ModelConfig c = tiny_llama();
  const std::int64_t plain = count(c);
  c.add_qkv_bias = true;  // 4 + 2 x 2 heads of 4 channels, in two layers
  EXPECT_EQ(count(c), plain + 2 * 32);
  c = tiny_gpt2();
  const std::int64_t of_gpt2 = count(c);
  c.qk_layernorm = true;  // a scale and a shift for 4 channels of q and of k
  EXPECT_EQ(count(c), of_gpt2 + 2 * 4 * 4);
  c.apply_layernorm_1p = true;
  EXPECT_EQ(count(c), of_gpt2 + 2 * 4 * 4);
}

TEST(GptSizes, ParametersOnMeta) {
  Gpt model(llama3_8b());
  model.table().allocate(Device::meta, DType::f32, true);
  EXPECT_GE(values_of(model.table()).numel(), 8030261248);
}

// 4 layers of attention, 24 of Mamba and 28 MLPs.
TEST(GptSizes, OfAHybrid) {
  ModelConfig c = sized(56, 4096, 32, 4096, 256000);
  c.family = ModelFamily::mamba;
  c.hybrid_pattern = std::string(4, '*') + std::string(24, 'M') + std::string(28, '-');
  c.position_embedding_type = "none";
  c.add_bias_linear = false;
  c.group_query_attention = true;
  c.num_query_groups = 8;
  c.complete();
  EXPECT_NEAR(model_flops(c, 256, {4096}), 4.88183162732544e16, 1e2);
  ModelConfig layer = sized(1, 1024, 16, 1024, 1024);
  layer.family = ModelFamily::mamba;
  layer.normalization = "RMSNorm";
  layer.complete();
  const std::int64_t beside = 2 * 1024 * 1024 + 1024;  // words, positions, the final norm
  EXPECT_EQ(Gpt(layer).table().count(), 8445024 + beside);
  layer = sized(1, 4096, 32, 1024, 1024);
  layer.family = ModelFamily::mamba;
  layer.normalization = "RMSNorm";
  layer.complete();
  EXPECT_EQ(Gpt(layer).table().count(), 109640064 + 4 * 2 * 1024 * 1024 + 4096);
}

// Without gradients a third is left, of what predicts further tokens, too; and a head that learns
// alone has gradients of its own, not of what it reads.
TEST(GptSizes, OfWhatLearnsInPart) {
  ModelConfig c = tiny_llama();
  const auto flops = [&](bool (*is_frozen)(const RowPlace&)) {
    ParamTable rows = model_rows(c);
    rows.freeze(is_frozen);
    return model_flops(c, rows, 3, {8});
  };
  const auto all = [](const RowPlace&) { return true; };
  const auto but_head = [](const RowPlace& place) { return place.stack != "output_layer"; };
  EXPECT_DOUBLE_EQ(flops(but_head) - flops(all),
                   3 * 8 * 2 * double(c.hidden_size * c.padded_vocab_size));
  c.mtp_num_layers = 2;
  c.complete();
  EXPECT_DOUBLE_EQ(3 * flops(all), model_flops(c, 3, {8}));
}

// families.md 16.9's, of experts that are no gates' and a shared one.
TEST(GptSizes, OfAHybridWithExperts) {
  ModelConfig c = sized(7, 1024, 16, 1024, 32000);
  c.family = ModelFamily::mamba;
  c.hybrid_pattern = "MEM*EM-";
  c.position_embedding_type = "none";
  c.add_bias_linear = false;
  c.squared_relu = c.group_query_attention = true;
  c.num_query_groups = 4;
  c.num_experts = 16;
  c.moe_router_topk = 6;
  c.moe_ffn_hidden_size = 512;
  c.moe_shared_expert_intermediate_size = 1024;
  c.complete();
  const double routers = 8 * 1024.0 * 6 * 2 * 16 * 1024;  // which that does not count
  EXPECT_NEAR(model_flops(c, 8, {1024}), 4405025832960 + routers, 1);
}

// families.md 16.9 and training.md 10.3's: DeepSeek-V3 without what predicts further tokens, and a
// step of a DeepSeek-V2-Lite over 512 samples.
TEST(GptSizes, OfLatentAttention) {
  ModelConfig c = sized(61, 7168, 128, 4096, 129280);
  c.family = ModelFamily::mixtral;
  c.position_embedding_type = "rope";
  c.normalization = "RMSNorm";
  c.swiglu = c.multi_latent_attention = c.qk_layernorm = true;
  c.untie_embeddings_and_output_weights = true;
  c.add_bias_linear = false;
  c.make_vocab_size_divisible_by = 1;
  c.padded_vocab_size = 0;
  c.ffn_hidden_size = 18432;
  c.q_lora_rank = 1536;
  c.kv_lora_rank = 512;
  c.num_experts = 256;
  c.moe_router_topk = 8;
  c.moe_ffn_hidden_size = c.moe_shared_expert_intermediate_size = 2048;
  c.moe_layer_freq = "[0]*3+[1]*58";
  c.complete();
  EXPECT_EQ(Gpt(c).table().count(), 671026404352);
  c.num_layers = 27;
  c.hidden_size = 2048;
  c.num_attention_heads = 16;
  c.q_lora_rank.reset();
  c.ffn_hidden_size = 10944;
  c.num_experts = 64;
  c.moe_router_topk = 6;
  c.moe_ffn_hidden_size = 1408;
  c.moe_shared_expert_intermediate_size = 2816;
  c.moe_layer_freq = "[0]+[1]*26";
  c.vocab_size = c.padded_vocab_size = 102400;
  c.complete();
  const double routers = 512.0 * 4096 * 6 * 26 * 64 * 2048;  // which that does not count
  EXPECT_NEAR(model_flops(c, 512, {4096}), 3.436431036069e16 + routers, 0.5e4);
}

// As Megatron's mixers begin: decays in [1, 16), steps in [0.001, 0.1), convolutions in [-1/2,
// 1/2).
TEST(Mamba, InitialValues) {
  ModelConfig c = tiny_hybrid("M");
  c.mamba_num_heads = 400;
  ModelBench bench(c, DType::f64);
  const auto extent = [&](const char* name, double (*of)(double)) {
    const Tensor& value = bench.table().at(concat("decoder.layers.0.mixer.", name)).value;
    double least = of(element(value, 0)), most = least;
    for (std::int64_t i = 0; i < value.numel(); ++i) {
      least = std::min(least, of(element(value, i)));
      most = std::max(most, of(element(value, i)));
    }
    return std::pair(least, most);
  };
  const auto expect = [](std::pair<double, double> got, double low, double high) {
    EXPECT_TRUE(low <= got.first && got.first < low + 0.05 * (high - low)) << got.first;
    EXPECT_TRUE(high - 0.05 * (high - low) < got.second && got.second < high) << got.second;
  };
  expect(extent("A_log", [](double x) { return std::exp(x); }), 1, 16);
  expect(extent("dt_bias", [](double x) { return std::log10(std::log1p(std::exp(x))); }), -3, -1);
  expect(extent("conv1d.weight", [](double x) { return x; }), -0.5, 0.5);
  expect(extent("conv1d.bias", [](double x) { return x; }), -0.5, 0.5);
  EXPECT_EQ(extent("D", [](double x) { return x; }), std::pair(1.0, 1.0));
}

TEST(GptSizes, Flops) {
  EXPECT_EQ(model_flops(sized(24, 1024, 16, 1024, 50304), 8, {1024}), 18612240777216);
  EXPECT_NEAR(model_flops(sized(96, 12288, 96, 2048, 51200), 1536, {2048}), 3.34059780016e18,
              0.5e7);
  EXPECT_NEAR(model_flops(llama3_8b(), 128, {8192}), 5.397062776101e16, 0.5e4);
}

}  // namespace
}  // namespace mt
