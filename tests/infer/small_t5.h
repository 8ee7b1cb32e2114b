// Small T5s with initial weights, for the tests of what runs on them, and their logits without a
// cache.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>

#include "model/config/model_config.h"
#include "model/model_table.h"
#include "model/pass.h"

namespace mt {

inline ModelConfig small_t5(const char* positions) {
  ModelConfig config;
  config.family = ModelFamily::t5;
  config.encoder_num_layers = 2;
  config.num_layers = 3;
  config.hidden_size = 16;
  config.num_attention_heads = 2;
  config.kv_channels = 12;
  config.max_position_embeddings = 12;
  config.vocab_size = 30;
  config.make_vocab_size_divisible_by = 16;
  config.init_method_std = 0.4;  // so that predictions differ
  config.bias_gelu_fusion = false;
  config.position_embedding_type = positions;
  config.relative_attention_num_buckets = 8;
  config.relative_attention_max_distance = 6;
  return config;
}
inline ModelConfig learned_t5() { return small_t5("learned_absolute"); }
inline ModelConfig rope_t5() {
  ModelConfig config = small_t5("rope");
  config.normalization = "RMSNorm";
  config.add_bias_linear = false;
  config.untie_embeddings_and_output_weights = true;
  return config;
}
inline ModelConfig relative_t5() { return small_t5("relative"); }

inline std::unique_ptr<Model> make_small_model(ModelConfig config, DType dtype = DType::f64) {
  config.complete();
  auto model = make_model(config, {{.end = config.all_layers()}});
  model->table().allocate(Device::cpu, dtype, false);
  Stream stream(Device::cpu, 1);
  model->initialize(1, stream);
  return model;
}

// The logits after `ids`, which a T5's decoder says to `read`: both stacks run over all of their
// tokens.
inline std::vector<double> uncached_logits(const Model& model, std::span<const std::int32_t> read,
                                           std::span<const std::int32_t> ids, std::int64_t vocab) {
  Stream stream(Device::cpu, 1);
  Pass pass(model, stream, vocab);
  const PassSize size{.length = std::ssize(ids), .read = std::ssize(read)};
  pass.reserve([&](Pass& measured) {
    measured.input(size);
    measured.on_host(measured.logits());
  });
  const PassInput in = pass.input(size);
  const auto put = [](std::span<const std::int32_t> tokens, const Tensor& to, const Tensor& at) {
    std::ranges::copy(tokens, to.as<std::int32_t>());
    std::iota(at.as<std::int32_t>(), at.as<std::int32_t>() + tokens.size(), 0);
  };
  put(ids, in.ids, in.positions);
  put(read, in.read, in.read_positions);
  in.rows.as<std::int32_t>()[0] = static_cast<std::int32_t>(ids.size()) - 1;
  in.memory_lengths.as<std::int32_t>()[0] = static_cast<std::int32_t>(read.size());
  const ConstTensor logits = pass.on_host(pass.logits());
  return with_float_type(logits.dtype(), [&]<class T>() {
    return std::vector<double>(logits.span<T>().begin(), logits.span<T>().end());
  });
}

}  // namespace mt
