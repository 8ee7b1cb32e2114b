#include "infer/runner.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace mt {
namespace {

struct Tokens {
  Tensor ids, positions;  // [tokens] i32
  Tensor last;            // [1] i32: the row of the last token

  Tokens(Arena& arena, std::int64_t count)
      : ids(arena.alloc(DType::i32, {count})),
        positions(arena.alloc(DType::i32, {count})),
        last(arena.alloc(DType::i32, {1})) {}
};

Tensor next_logits(const Gpt& model, Stream& stream, Arena& layer, const Tokens& tokens,
                   KvCache& cache) {
  Arena unused;
  WeightGrads none;
  Step s = {.stream = stream,
            .keep = unused,
            .layer = layer,
            .deferred = unused,
            .weight_grads = none,
            .dtype = model.table().dtype(),
            .sequences = 1,
            .seq_length = tokens.ids.numel(),
            .positions = tokens.positions,
            .cache = &cache};
  return model.logits(s, tokens.ids, tokens.last, model.config().padded_vocab_size);
}

KvCache make_cache(const GptConfig& c, Device device, DType dtype) {
  return {device, dtype, c.num_layers, c.max_position_embeddings, c.kv_heads(), c.head_dim()};
}

// Bytes of the layer arena for the longest input.
std::size_t layer_bytes(const GptConfig& config, DType dtype) {
  Stream meta(Device::meta);
  Gpt model(config);
  model.table().allocate(Device::meta, dtype, false);
  KvCache cache = make_cache(config, Device::meta, dtype);
  Arena layer(Buffer(Device::meta, kMeasuring));
  next_logits(model, meta, layer, Tokens(layer, config.max_position_embeddings), cache);
  return layer.peak_bytes();
}

}  // namespace

Runner::Runner(const Gpt& model, int threads)
    : model_(model),
      stream_(Device::cpu, threads),
      cache_(make_cache(model.config(), Device::cpu, model.table().dtype())),
      layer_(Buffer(Device::cpu, layer_bytes(model.config(), model.table().dtype()))) {}

ConstTensor Runner::next_logits(std::span<const std::int32_t> ids) {
  const auto count = static_cast<std::int64_t>(ids.size());
  assert(count > 0 && length() + count <= max_tokens());
  layer_.rewind(0);
  const Tokens tokens(layer_, count);
  std::ranges::copy(ids, tokens.ids.as<std::int32_t>());
  const std::span positions = tokens.positions.span<std::int32_t>();
  std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(length()));
  *tokens.last.as<std::int32_t>() = static_cast<std::int32_t>(count) - 1;
  const Tensor logits = mt::next_logits(model_, stream_, layer_, tokens, cache_);
  cache_.advance(count);
  return logits.reshape({logits.numel()});
}

}  // namespace mt
