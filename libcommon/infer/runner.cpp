#include "infer/runner.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace mt {
namespace {

struct Tokens {
  Tensor ids, positions;  // [sequences length] i32
  Tensor last;            // [sequences] i32: the rows of their last tokens

  Tokens(Arena& arena, std::int64_t sequences, std::int64_t length)
      : ids(arena.alloc(DType::i32, {sequences * length})),
        positions(arena.alloc(DType::i32, {sequences * length})),
        last(arena.alloc(DType::i32, {sequences})) {}
};

Tensor next_logits(const Gpt& model, Stream& stream, Arena& layer, const Tokens& tokens,
                   std::span<KvCache* const> caches, std::int64_t vocab_size) {
  Arena unused;
  WeightGrads none;
  const auto sequences = static_cast<std::int64_t>(caches.size());
  Step s = {.stream = stream,
            .keep = unused,
            .layer = layer,
            .deferred = unused,
            .weight_grads = none,
            .dtype = model.table().dtype(),
            .sequences = sequences,
            .seq_length = tokens.ids.numel() / sequences,
            .positions = tokens.positions,
            .caches = caches};
  return model.logits(s, tokens.ids, tokens.last, vocab_size);
}

KvCache make_cache(const GptConfig& c, Device device, DType dtype) {
  return {device, dtype, c.num_layers, c.max_position_embeddings, c.kv_heads(), c.head_dim()};
}

// Bytes of the layer arena for the longest input of one sequence and for a token of each.
std::size_t layer_bytes(const GptConfig& config, DType dtype, std::int64_t sequences,
                        std::int64_t vocab_size) {
  Stream meta(Device::meta);
  Gpt model(config);
  model.table().allocate(Device::meta, dtype, false);
  KvCache cache = make_cache(config, Device::meta, dtype);
  Arena layer(Buffer(Device::meta, kMeasuring));
  const auto measure = [&](std::size_t count, std::int64_t length) {
    const ArenaScope scope(layer);
    const std::vector<KvCache*> caches(count, &cache);
    next_logits(model, meta, layer, Tokens(layer, static_cast<std::int64_t>(count), length), caches,
                vocab_size);
  };
  measure(1, config.max_position_embeddings);
  measure(static_cast<std::size_t>(std::min(sequences, Runner::kTogether)), 1);
  return layer.peak_bytes();
}

}  // namespace

Runner::Runner(const Gpt& model, const Options& options)
    : model_(model),
      vocab_size_(options.vocab_size),
      stream_(Device::cpu, options.threads),
      layer_(Buffer(Device::cpu, layer_bytes(model.config(), model.table().dtype(),
                                             options.sequences, options.vocab_size))) {
  for (std::int64_t i = 0; i < options.sequences; ++i)
    caches_.push_back(make_cache(model.config(), Device::cpu, model.table().dtype()));
}

ConstTensor Runner::next_logits(std::int64_t sequence, std::span<const std::int32_t> ids) {
  KvCache* const one = &cache(sequence);
  return run({&one, 1}, ids);
}

ConstTensor Runner::next_logits(std::span<const std::int64_t> sequences,
                                std::span<const std::int32_t> ids) {
  assert(sequences.size() == ids.size() && static_cast<std::int64_t>(ids.size()) <= kTogether);
  std::vector<KvCache*> caches;
  for (const std::int64_t sequence : sequences) caches.push_back(&cache(sequence));
  return run(caches, ids);
}

ConstTensor Runner::run(std::span<KvCache* const> caches, std::span<const std::int32_t> ids) {
  const auto sequences = static_cast<std::int64_t>(caches.size());
  const std::int64_t length = static_cast<std::int64_t>(ids.size()) / sequences;
  layer_.rewind(0);
  const Tokens tokens(layer_, sequences, length);
  std::ranges::copy(ids, tokens.ids.as<std::int32_t>());
  for (std::int64_t i = 0; i < sequences; ++i) {
    const std::int64_t seen = caches[static_cast<std::size_t>(i)]->length();
    assert(length > 0 && seen + length <= max_tokens());
    std::int32_t* const positions = tokens.positions.as<std::int32_t>() + i * length;
    std::iota(positions, positions + length, static_cast<std::int32_t>(seen));
    tokens.last.as<std::int32_t>()[i] = static_cast<std::int32_t>((i + 1) * length - 1);
  }
  const Tensor logits = mt::next_logits(model_, stream_, layer_, tokens, caches, vocab_size_);
  for (KvCache* const cache : caches) cache->advance(length);
  return logits;
}

}  // namespace mt
