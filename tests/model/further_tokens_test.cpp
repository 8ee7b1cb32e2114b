// Layers that predict further tokens: the numbers that megatron-core 0.12.1 gives on the CPU
// (families.md 16.5), of a GPT whose weights are functions of their places.
#include <gtest/gtest.h>

#include <cmath>

#include "model/config/model_config.h"
#include "model/families/gpt.h"
#include "tests/model/golden.h"
#include "tests/support/workbench.h"

namespace mt {
namespace {

constexpr std::int64_t kLength = 6, kDepths = 2;
constexpr std::int32_t kIds[] = {3, 7, 1, 9, 12, 4}, kLabels[] = {7, 1, 9, 12, 4, 6};
constexpr double kMask[] = {1, 1, 1, 0, 1, 1};

ModelConfig config() {
  ModelConfig c;
  c.num_layers = c.num_attention_heads = 2;
  c.hidden_size = 8;
  c.ffn_hidden_size = 12;
  c.vocab_size = 16;
  c.make_vocab_size_divisible_by = 1;
  c.max_position_embeddings = kLength;
  c.position_embedding_type = "none";
  c.normalization = "RMSNorm";
  c.swiglu = c.untie_embeddings_and_output_weights = true;
  c.bias_gelu_fusion = c.add_bias_linear = false;
  c.attention_dropout = c.hidden_dropout = 0;
  c.mtp_num_layers = kDepths;
  c.mtp_loss_scaling_factor = 0.3;
  c.complete();
  return c;
}

TEST(FurtherTokens, LossesAndGradientsAreThoseOfMegatronCore) {
  const ModelConfig c = config();
  Gpt model(c);
  model.table().allocate(Device::cpu, DType::f64, true);
  fill_in_order(model.table(), 0.4);
  for (Param& row : model.table().rows()) fill_with(row.grad, [](std::int64_t) { return 0; });
  const HostTensor ids(DType::i32, {kLength}), labels(DType::i32, {kLength}),
      weight(DType::f64, {kLength}), loss(DType::f64, {kLength}),
      further_ids(DType::i32, {kDepths * kLength}), further_labels(DType::i32, {kDepths * kLength}),
      further_weight(DType::f64, {kDepths * kLength}),
      further_loss(DType::f64, {kDepths * kLength});
  double counted[kDepths + 1] = {};
  const auto mask = [](std::int64_t depth, std::int64_t i) {
    return i + depth < kLength ? kMask[i + depth] : 0;
  };
  for (std::int64_t depth = 0; depth <= kDepths; ++depth)
    for (std::int64_t i = 0; i < kLength; ++i) counted[depth] += mask(depth, i);
  for (std::int64_t i = 0; i < kLength; ++i) {
    ids.view().as<std::int32_t>()[i] = kIds[i];
    labels.view().as<std::int32_t>()[i] = kLabels[i];
    for (std::int64_t depth = 1; depth <= kDepths; ++depth) {
      const std::int64_t at = (depth - 1) * kLength + i;
      const bool inside = i + depth < kLength;
      further_ids.view().as<std::int32_t>()[at] = inside ? kIds[i + depth] : 0;
      further_labels.view().as<std::int32_t>()[at] = inside ? kLabels[i + depth] : 0;
    }
  }
  fill_with(weight, [&](std::int64_t i) { return kMask[i] / counted[0]; });
  fill_with(further_weight, [&](std::int64_t i) {
    const std::int64_t depth = i / kLength + 1;
    return c.mtp_loss_scaling_factor / kDepths * mask(depth, i % kLength) / counted[depth];
  });

  Workbench bench({.sequences = 1, .seq_length = kLength});
  Fields batch;
  batch[Field::ids] = ids;
  batch[Field::labels] = labels;
  batch[Field::further_ids] = further_ids;
  batch[Field::further_labels] = further_labels;
  batch[Field::further_weight] = further_weight;
  Step s = bench.step();
  const auto saved = model.make_saved();
  Wire wire;
  model.forward(s, wire, {}, batch, {.loss = loss, .weight = weight, .further_loss = further_loss},
                saved.get());
  model.backward(s, wire, {}, *saved);
  bench.run_weight_grads();

  const double expected[] = {3.0982375, 2.8740382, 2.9920313};
  for (std::int64_t depth = 0; depth <= kDepths; ++depth) {
    double sum = 0;
    for (std::int64_t i = 0; i < kLength; ++i)
      sum +=
          mask(depth, i) * (depth == 0 ? element(loss.view(), i)
                                       : element(further_loss.view(), (depth - 1) * kLength + i));
    EXPECT_NEAR(sum / counted[depth], expected[depth], 1e-6) << depth;
  }
  for (const auto& [name, norm] : {std::pair("embedding.word_embeddings.weight", 1.485707),
                                   {"output_layer.weight", 1.223587},
                                   {"decoder.final_layernorm.weight", .458621},
                                   {"mtp.layers.0.eh_proj.weight", .171716},
                                   {"mtp.layers.1.hnorm.weight", .028782},
                                   {"decoder.layers.0.mlp.linear_fc1.weight", .395163}}) {
    const Tensor& gradient = model.table().at(name).grad;
    double squares = 0;
    for (std::int64_t i = 0; i < gradient.numel(); ++i)
      squares += element(gradient, i) * element(gradient, i);
    EXPECT_NEAR(std::sqrt(squares), norm, 2e-6) << name;
  }
}

}  // namespace
}  // namespace mt
