#include "infer/runner.h"

#include <algorithm>
#include <cassert>

namespace mt {
namespace {

struct Tokens {
  Tensor ids, positions;
};

Tokens alloc_tokens(Arena& arena, std::int64_t count) {
  return {arena.alloc(DType::i32, {count}), arena.alloc(DType::i32, {count})};
}

Batch score_batch(Arena& arena, const Tokens& tokens, DType dtype) {
  return {.ids = tokens.ids,
          .labels = arena.alloc(DType::i32, tokens.ids.shape()),
          .positions = tokens.positions,
          .loss_mask = {},
          .row_weight = {},
          .loss = arena.alloc(dtype, tokens.ids.shape())};
}

Step make_step(Stream& stream, Arena& layer, Arena& unused, WeightGrads& none, const Gpt& model,
               const Tokens& tokens, KvCache* cache) {
  return {.stream = stream,
          .keep = unused,
          .layer = layer,
          .deferred = unused,
          .weight_grads = none,
          .dtype = model.table().dtype(),
          .sequences = 1,
          .seq_length = tokens.ids.numel(),
          .positions = tokens.positions,
          .cache = cache};
}

KvCache make_cache(const GptConfig& c, Device device, DType dtype) {
  return {device, dtype, c.num_layers, c.max_position_embeddings, c.kv_heads(), c.head_dim()};
}

// Bytes of the layer arena for the longest input, whether scored or generated from.
std::size_t layer_bytes(const GptConfig& config, DType dtype) {
  Stream meta(Device::meta);
  Gpt model(config);
  model.table().allocate(Device::meta, dtype, false);
  KvCache cache = make_cache(config, Device::meta, dtype);
  Arena layer(Buffer(Device::meta, kMeasuring)), unused;
  WeightGrads none;
  {
    const ArenaScope scope(layer);
    const Tokens tokens = alloc_tokens(layer, config.max_position_embeddings);
    const Batch batch = score_batch(layer, tokens, dtype);
    Step s = make_step(meta, layer, unused, none, model, tokens, nullptr);
    Wire out;
    model.forward(s, out, {}, batch, nullptr);
  }
  const Tokens tokens = alloc_tokens(layer, config.max_position_embeddings);
  Step s = make_step(meta, layer, unused, none, model, tokens, &cache);
  model.next_token_logits(s, tokens.ids);
  return layer.peak_bytes();
}

void fill(const Tokens& tokens, std::span<const std::int32_t> ids, std::int64_t first_position) {
  std::ranges::copy(ids, tokens.ids.as<std::int32_t>());
  for (std::size_t i = 0; i < ids.size(); ++i)
    tokens.positions.as<std::int32_t>()[i] =
        static_cast<std::int32_t>(first_position + static_cast<std::int64_t>(i));
}

}  // namespace

Runner::Runner(const Gpt& model, int threads)
    : model_(model),
      stream_(Device::cpu, threads),
      cache_(make_cache(model.config(), Device::cpu, model.table().dtype())),
      layer_(Buffer(Device::cpu, layer_bytes(model.config(), model.table().dtype()))) {}

void Runner::score(std::span<const std::int32_t> ids, std::span<double> nll) {
  const std::size_t count = ids.size() - 1;
  assert(nll.size() == count && 1 <= count && static_cast<std::int64_t>(count) <= max_tokens());
  layer_.rewind(0);
  const Tokens tokens = alloc_tokens(layer_, static_cast<std::int64_t>(count));
  fill(tokens, ids.first(count), 0);
  const Batch batch = score_batch(layer_, tokens, model_.table().dtype());
  std::ranges::copy(ids.subspan(1), batch.labels.as<std::int32_t>());
  Step s = make_step(stream_, layer_, unused_, no_gradients_, model_, tokens, nullptr);
  Wire out;
  model_.forward(s, out, {}, batch, nullptr);
  with_float_type(batch.loss.dtype(), [&]<class T>() {
    for (std::size_t i = 0; i < count; ++i) nll[i] = static_cast<double>(batch.loss.as<T>()[i]);
  });
}

ConstTensor Runner::next_logits(std::span<const std::int32_t> ids) {
  const auto count = static_cast<std::int64_t>(ids.size());
  assert(count > 0 && length() + count <= max_tokens());
  layer_.rewind(0);
  const Tokens tokens = alloc_tokens(layer_, count);
  fill(tokens, ids, length());
  Step s = make_step(stream_, layer_, unused_, no_gradients_, model_, tokens, &cache_);
  const Tensor logits = model_.next_token_logits(s, tokens.ids);
  cache_.advance(count);
  return logits.reshape({logits.numel()});
}

}  // namespace mt
