// Latent attention with YaRN: what families.md 16.7 and training.md 12 have of it, which a formula
// in f64 gives and transformers to 1e-7.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/config/model_config.h"
#include "nn/latent_attention.h"
#include "tests/support/workbench.h"

namespace mt {
namespace {

TEST(Latent, FrequenciesAndScalesOfDeepSeek) {
  LatentConfig c{.multi_latent_attention = true, .rotary_scaling_factor = 40};
  c.mscale = c.mscale_all_dim = 0.707;
  const std::vector<double> f = c.latent_frequencies(10000, 4096);
  ASSERT_EQ(f.size(), 32U);
  for (const auto& [at, expected] : {std::pair(0, 1.0),
                                     {10, 0.056234133},
                                     {16, 0.0055},
                                     {20, 0.00079056942},
                                     {23, 3.3338036e-05},
                                     {31, 3.3338036e-06}})
    EXPECT_NEAR(f[static_cast<std::size_t>(at)], expected, 1e-7 * expected) << at;
  EXPECT_NEAR(c.latent_scale(), 0.1147213868, 1e-10);
  EXPECT_EQ(c.latent_magnitude(), 1);
  c.mscale = c.mscale_all_dim = 1;
  EXPECT_NEAR(c.latent_scale(), 0.1352337789, 1e-10);
}

TEST(Latent, OutputIsThatOfTheFormula) {
  constexpr std::int64_t kHidden = 8, kHeads = 2, kQRank = 5, kKvRank = 6, kLength = 5;
  LatentConfig c{.multi_latent_attention = true, .q_lora_rank = kQRank, .kv_lora_rank = kKvRank};
  c.qk_head_dim = c.qk_pos_emb_head_dim = 4;
  c.v_head_dim = 3;
  c.rotary_scaling_factor = 4;
  c.mscale = 0.7;
  c.original_max_position_embeddings = 8;
  const std::vector<double> frequencies = c.latent_frequencies(10000, 0);
  EXPECT_NEAR(frequencies.at(0), 1, 1e-12);
  EXPECT_NEAR(frequencies.at(1), 0.0025, 1e-12);
  EXPECT_NEAR(c.latent_magnitude(), 0.963474657, 1e-9);
  EXPECT_NEAR(c.latent_scale(), 0.458373837, 1e-9);

  ParamTable table;
  const auto row = [&](const char* name, const Shape& shape) {
    return Param{.place = {.module = name, .param = "weight"}, .shape = shape};
  };
  const auto linear = [&](const char* name, std::int64_t out, std::int64_t in) {
    return Linear(table, row(name, {out, in}), false);
  };
  const auto norm = [&](const char* name, std::int64_t width) {
    return Norm(table, row(name, {width}), {.kind = NormKind::rms, .eps = 1e-6});
  };
  const LatentHeads heads{.heads = kHeads, .fixed = 4, .turning = 4, .values = 3};
  const Norm kv_norm = norm("kv_layernorm", kKvRank);
  const Linear kv_down = linear("linear_kv_down_proj", kKvRank + 4, kHidden),
               kv_up = linear("linear_kv_up_proj", kHeads * heads.kv_width(), kKvRank),
               proj = linear("linear_proj", kHidden, kHeads * heads.values),
               q_down = linear("linear_q_down_proj", kQRank, kHidden),
               q_up = linear("linear_q_up_proj", kHeads * heads.q_width(), kQRank);
  const Norm q_norm = norm("q_layernorm", kQRank);
  table.allocate(Device::cpu, DType::f64, false);
  const double factors[] = {0.1, 0.4, 0.4, 0.4, 0.4, 0.6, 0.1};
  for (const Param& weight : table.rows()) {
    const double t = static_cast<double>(weight.index);
    fill_with(weight.value, [&](std::int64_t i) {
      const double wave = factors[weight.index] * std::sin(0.7 * double(i + 1) + 0.9 * t);
      return weight.shape.rank() == 1 ? 1 + wave : wave;
    });
  }
  const HostTensor x(DType::f64, {kLength, kHidden}), y(DType::f64, {kLength, kHidden});
  fill_with(x, [](std::int64_t i) { return std::sin(0.9 * double(i + 1)); });
  const LatentAttention attention(
      {LatentAttention::Latent{q_down, q_norm}, q_up}, {kv_down, kv_norm}, kv_up, proj,
      {.core = {.heads = kHeads,
                .kv_heads = kHeads,
                .head_dim = heads.width(),
                .scale = c.latent_scale() * std::sqrt(double(heads.width()))},
       .heads = heads,
       .inv_freq = ConstTensor(frequencies.data(), DType::f64, {2}),
       .rotary_magnitude = c.latent_magnitude()});
  Workbench bench({.sequences = 1, .seq_length = kLength, .training = false});
  Step s = bench.step();
  attention.forward(s, y, {}, x.view(), nullptr);
  const double first[] = {.929840,  -.659280, -.283401, .937161,
                          -.635506, -.314034, .943423,  -.611013},
               last[] = {.527643,  -.511840, -.025773, .537111,
                         -.500876, -.045991, .545971,  -.489346};
  for (std::int64_t i = 0; i < kHidden; ++i) {
    EXPECT_NEAR(element(y.view(), i), first[i], 1e-6) << i;
    EXPECT_NEAR(element(y.view(), 4 * kHidden + i), last[i], 1e-6) << i;
  }
}

// What is found of heads lies where what made these did: no scratch is held beside it.
TEST(Latent, ScratchIsOfHeadsAndWhatMakesThem) {
  constexpr std::int64_t kTokens = 32;  // a column of which is 256 bytes
  ParamTable table;
  const auto linear = [&](const char* name, std::int64_t rows, std::int64_t cols) {
    return Linear(table, {.place = {.module = name, .param = "weight"}, .shape = {rows, cols}},
                  false);
  };
  const LatentHeads heads{.heads = 2, .fixed = 4, .turning = 4, .values = 3};
  const Linear q = linear("linear_q_proj", 2 * heads.q_width(), 6),
               down = linear("linear_kv_down_proj", 5 + 4, 6),
               up = linear("linear_kv_up_proj", 2 * heads.kv_width(), 5),
               proj = linear("linear_proj", 6, 2 * heads.values);
  table.allocate(Device::cpu, DType::f64, false);
  const double frequencies[] = {1, 0.1};
  const LatentAttention attention({{}, q}, {down, {}}, up, proj,
                                  {.core = {.heads = 2, .kv_heads = 2, .head_dim = heads.width()},
                                   .heads = heads,
                                   .inv_freq = ConstTensor(frequencies, DType::f64, {2})});
  const HostTensor x(DType::f64, {kTokens, 6});
  Workbench bench({.sequences = 1, .seq_length = kTokens, .training = false});
  Step s = bench.step();
  attention.forward(s, {}, {}, x.view(), nullptr);
  const std::int64_t latents = 5 + 4, made = 3 * 2 * heads.width(),
                     rows = 2 * (heads.q_width() + heads.kv_width());
  EXPECT_EQ(bench.layer().peak_bytes(), 256U * static_cast<std::size_t>(latents + made + rows));
}

}  // namespace
}  // namespace mt
