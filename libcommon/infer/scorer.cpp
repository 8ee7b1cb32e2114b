#include "infer/scorer.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "kernels/gemm.h"
#include "model/config/model_config.h"
#include "nn/inference.h"
#include "tensor/host_copy.h"

namespace mt {
namespace {

std::int64_t round_up(std::int64_t count, std::int64_t unit) {
  return (count + unit - 1) / unit * unit;
}

// 12, 24, 48 and multiples of 48.
std::int64_t padded_length(std::int64_t inputs) {
  for (const std::int64_t length : {kRowPeriod, 2 * kRowPeriod})
    if (inputs <= length) return length;
  return round_up(inputs, kRowTile / 2);
}

// How many sequences of such a length fill tiles.
std::int64_t tile_sequences(std::int64_t length) { return kRowTile / std::gcd(kRowTile, length); }

// What the host tells a batch, of whose tokens `scored` count: i32 tensors, one behind the other.
struct Input {
  Tensor block;           // all of them
  Tensor ids, positions;  // [sequences length]
  Tensor rows, labels;    // [scored]

  static std::int64_t size(std::int64_t tokens, std::int64_t scored) {
    return 2 * tokens + 2 * scored;
  }
  Input(const Tensor& all, std::int64_t tokens, std::int64_t scored)
      : block(all),
        ids(all.rows(0, tokens)),
        positions(all.rows(tokens, 2 * tokens)),
        rows(all.rows(2 * tokens, 2 * tokens + scored)),
        labels(all.rows(2 * tokens + scored, 2 * tokens + 2 * scored)) {}
};

void run(const Gpt& model, Stream& stream, Arena& layer, const Input& in, const Tensor& nll,
         std::int64_t sequences, std::int64_t vocab_size) {
  Inference inference(stream, layer, model.table().dtype(), sequences, in.positions);
  model.score(inference.step, nll, in.ids, in.rows, in.labels, vocab_size);
}

struct Memory {
  std::size_t layer, work;  // bytes of the arena and of a GPU's scratch
};

// When all of `tokens` are scored.
Memory measure(const ModelConfig& config, DType dtype, std::int64_t tokens, std::int64_t sequences,
               std::int64_t vocab_size) {
  Stream meta(Device::meta);
  Gpt model(config);
  model.table().allocate(Device::meta, dtype, false);
  Arena layer(Buffer(Device::meta, kMeasuring));
  const Input input(layer.alloc(DType::i32, {Input::size(tokens, tokens)}), tokens, tokens);
  const Tensor nll = layer.alloc(sum_dtype(dtype), {tokens});
  run(model, meta, layer, input, nll, sequences, vocab_size);
  return {layer.peak_bytes(), meta.work_bytes()};
}

}  // namespace

Scorer::Scorer(const Gpt& model, const Options& options)
    : model_(model),
      window_(options.window),
      tokens_(round_up(options.batch * padded_length(options.window), kRowTile)),
      vocab_size_(options.vocab_size),
      stream_(model.table().device(), options.threads) {
  const Memory memory = measure(model.config(), model.table().dtype(), tokens_,
                                tokens_ / padded_length(window_), vocab_size_);
  layer_ = Arena(Buffer(stream_.device(), memory.layer));
  if (stream_.device() != Device::cuda) return;
  stream_.reserve_work(memory.work);
  staging_ = Buffer::pinned(static_cast<std::size_t>(Input::size(tokens_, tokens_)) * 4);
}

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
    const std::int64_t unit = tile_sequences(length), most = tokens_ / length / unit * unit;
    const auto sequences =
        static_cast<std::size_t>(std::clamp<std::int64_t>(most, 1, std::ssize(left)));
    const bool fills_one = sequences == 1 && length > kRowTile / 2;
    score_batch(left.first(sequences), fills_one ? round_up(length, kRowTile) : length);
    left = left.subspan(sequences);
  }
}

// The padding's tokens have id and position 0, and what is scored in between is thrown away.
void Scorer::score_batch(std::span<const Item> items, std::int64_t length) {
  const auto count = static_cast<std::int64_t>(items.size());
  const auto room = [](const Item& item) { return round_up(std::ssize(item.nll), kRowPeriod); };
  std::int64_t scored = 0;
  for (const Item& item : items) scored += room(item);
  scored = round_up(scored, kRowTile);
  const std::int64_t tokens = round_up(count, tile_sequences(length)) * length;
  const Shape size{Input::size(tokens, scored)};
  const ArenaScope scope(layer_);
  const Input input(layer_.alloc(DType::i32, size), tokens, scored);
  const Tensor nll = layer_.alloc(sum_dtype(model_.table().dtype()), {scored});
  const bool gpu = stream_.device() == Device::cuda;
  const Input host(gpu ? staging_.tensor(DType::i32, size) : input.block, tokens, scored);
  std::ranges::fill(host.block.span<std::int32_t>(), 0);
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const Item& item = items[static_cast<std::size_t>(i)];
    const auto inputs = static_cast<std::int64_t>(item.ids.size()) - 1;
    std::ranges::copy(item.ids.first(item.ids.size() - 1),
                      host.ids.as<std::int32_t>() + i * length);
    std::iota(host.positions.as<std::int32_t>() + i * length,
              host.positions.as<std::int32_t>() + i * length + inputs, 0);
    std::ranges::copy(item.ids.last(item.nll.size()), host.labels.as<std::int32_t>() + at);
    std::iota(host.rows.as<std::int32_t>() + at,
              host.rows.as<std::int32_t>() + at + item.nll.size(),
              static_cast<std::int32_t>(i * length + inputs) -
                  static_cast<std::int32_t>(item.nll.size()));
    at += room(item);
  }
  if (gpu)
    device::copy(input.block.data(), host.block.data(), host.block.bytes(), stream_.handle());
  run(model_, stream_, layer_, input, nll, tokens / length, vocab_size_);
  stream_.synchronize();
  const HostCopy scores = HostCopy::of(nll);
  with_float_type(nll.dtype(), [&]<class T>() {
    const T* value = scores.tensor().as<T>();
    for (const Item& item : items) {
      std::copy_n(value, item.nll.size(), item.nll.begin());
      value += room(item);
    }
  });
}

}  // namespace mt
