#include "infer/scorer.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "kernels/gemm.h"

namespace mt {
namespace {

std::int64_t round_up(std::int64_t count, std::int64_t unit) {
  return (count + unit - 1) / unit * unit;
}

// 12, 24, 48 and multiples of 48: a number of such sequences makes whole tiles.
std::int64_t padded_length(std::int64_t inputs) {
  for (const std::int64_t length : {kRowPeriod, 2 * kRowPeriod})
    if (inputs <= length) return length;
  return round_up(inputs, kRowTile / 2);
}

// The tensors of a batch; `scored` of its tokens count.
struct Tensors {
  Tensor ids, positions;     // [sequences length] i32
  Tensor rows, labels, nll;  // [scored]: i32, i32, the model's dtype

  Tensors(Arena& arena, DType dtype, std::int64_t tokens, std::int64_t scored)
      : ids(arena.alloc(DType::i32, {tokens})),
        positions(arena.alloc(DType::i32, {tokens})),
        rows(arena.alloc(DType::i32, {scored})),
        labels(arena.alloc(DType::i32, {scored})),
        nll(arena.alloc(dtype, {scored})) {}
};

void run(const Gpt& model, Stream& stream, Arena& layer, const Tensors& t, std::int64_t sequences,
         std::int64_t vocab_size) {
  Arena unused;
  WeightGrads none;
  Step s = {.stream = stream,
            .keep = unused,
            .layer = layer,
            .deferred = unused,
            .weight_grads = none,
            .dtype = model.table().dtype(),
            .sequences = sequences,
            .seq_length = t.ids.numel() / sequences,
            .positions = t.positions};
  model.score(s, t.nll, t.ids, t.rows, t.labels, vocab_size);
}

// Bytes of the layer arena when all of `tokens` are scored.
std::size_t layer_bytes(const GptConfig& config, DType dtype, std::int64_t tokens,
                        std::int64_t sequences, std::int64_t vocab_size) {
  Stream meta(Device::meta);
  Gpt model(config);
  model.table().allocate(Device::meta, dtype, false);
  Arena layer(Buffer(Device::meta, kMeasuring));
  run(model, meta, layer, Tensors(layer, dtype, tokens, tokens), sequences, vocab_size);
  return layer.peak_bytes();
}

}  // namespace

Scorer::Scorer(const Gpt& model, const Options& options)
    : model_(model),
      window_(options.window),
      tokens_(round_up(options.batch * padded_length(options.window), kRowTile)),
      vocab_size_(options.vocab_size),
      stream_(Device::cpu, options.threads),
      layer_(Buffer(Device::cpu, layer_bytes(model.config(), model.table().dtype(), tokens_,
                                             tokens_ / padded_length(window_), vocab_size_))) {}

void Scorer::score(std::span<const std::span<const std::int32_t>> ids,
                   std::span<const std::span<double>> nll) {
  std::vector<Item> items;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    assert(nll[i].size() < ids[i].size() && ids[i].size() <= static_cast<std::size_t>(window_) + 1);
    if (!nll[i].empty()) items.push_back({ids[i], nll[i]});
  }
  std::ranges::stable_sort(items, std::greater(), [](const Item& x) { return x.ids.size(); });
  for (std::span<const Item> left(items); !left.empty();) {
    const std::int64_t length =
        padded_length(static_cast<std::int64_t>(left.front().ids.size()) - 1);
    const auto sequences = std::min(static_cast<std::size_t>(tokens_ / length), left.size());
    score_batch(left.first(sequences), length);
    left = left.subspan(sequences);
  }
}

// The padding's tokens have id and position 0, and what is scored in between is thrown away.
void Scorer::score_batch(std::span<const Item> items, std::int64_t length) {
  const auto count = static_cast<std::int64_t>(items.size());
  const auto room = [](const Item& item) { return round_up(std::ssize(item.nll), kRowPeriod); };
  std::int64_t scored = 0;
  for (const Item& item : items) scored += room(item);
  const ArenaScope scope(layer_);
  const Tensors t(layer_, model_.table().dtype(), round_up(count * length, kRowTile),
                  round_up(scored, kRowTile));
  for (const Tensor& tensor : {t.ids, t.positions, t.rows, t.labels})
    std::ranges::fill(tensor.span<std::int32_t>(), 0);
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const Item& item = items[static_cast<std::size_t>(i)];
    const auto& [ids, nll] = item;
    const auto inputs = static_cast<std::int64_t>(ids.size()) - 1;
    std::ranges::copy(ids.first(ids.size() - 1), t.ids.as<std::int32_t>() + i * length);
    std::iota(t.positions.as<std::int32_t>() + i * length,
              t.positions.as<std::int32_t>() + i * length + inputs, 0);
    std::ranges::copy(ids.last(nll.size()), t.labels.as<std::int32_t>() + at);
    std::iota(
        t.rows.as<std::int32_t>() + at, t.rows.as<std::int32_t>() + at + nll.size(),
        static_cast<std::int32_t>(i * length + inputs) - static_cast<std::int32_t>(nll.size()));
    at += room(item);
  }
  run(model_, stream_, layer_, t, t.ids.numel() / length, vocab_size_);
  with_float_type(t.nll.dtype(), [&]<class T>() {
    const T* value = t.nll.as<T>();
    for (const Item& item : items) {
      std::copy_n(value, item.nll.size(), item.nll.begin());
      value += room(item);
    }
  });
}

}  // namespace mt
