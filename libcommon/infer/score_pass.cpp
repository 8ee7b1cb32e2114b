#include "infer/score_pass.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <numeric>
#include <vector>

#include "infer/padding.h"

namespace mt {

ScorePass::ScorePass(const Model& model, const Options& options)
    : scored_(options.scored),
      window_(options.window),
      tokens_(round_up(options.batch * padded_length(options.window), kRowTile)),
      stream_(model.table().device(), options.threads),
      pass_(model, stream_, options.vocab_size) {
  pass_.reserve([&](Pass& pass) {  // when all tokens are scored, of the longest and the shortest
    for (const std::int64_t length : {padded_length(window_), kRowPeriod}) {
      pass.input({.sequences = tokens_ / length, .length = length, .rows = tokens_});
      pass.on_host(pass.scores());
    }
  });
}

void ScorePass::score(std::span<const std::span<const std::int32_t>> ids,
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
    if (scored_) {
      std::int64_t tokens = 0;
      for (const Item& item : left.first(sequences)) tokens += std::ssize(item.nll);
      scored_(tokens);
    }
    left = left.subspan(sequences);
  }
}

// The padding's tokens have id and position 0, and what is scored in between is thrown away.
void ScorePass::score_batch(std::span<const Item> items, std::int64_t length) {
  const std::int64_t count = std::ssize(items);
  const auto room = [](const Item& item) { return round_up(std::ssize(item.nll), kRowPeriod); };
  std::int64_t scored = 0;
  for (const Item& item : items) scored += room(item);
  const PassInput in = pass_.input({.sequences = round_up(count, tile_sequences(length)),
                                    .length = length,
                                    .rows = round_up(scored, kRowTile)});
  std::ranges::fill(in.block.span<std::int32_t>(), 0);
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const Item& item = items[static_cast<std::size_t>(i)];
    const std::int64_t inputs = std::ssize(item.ids) - 1;
    std::ranges::copy(item.ids.first(item.ids.size() - 1), in.ids.as<std::int32_t>() + i * length);
    std::int32_t* const positions = in.positions.as<std::int32_t>() + i * length;
    std::iota(positions, positions + inputs, 0);
    std::ranges::copy(item.ids.last(item.nll.size()), in.labels.as<std::int32_t>() + at);
    std::int32_t* const rows = in.rows.as<std::int32_t>() + at;
    std::iota(rows, rows + item.nll.size(),
              static_cast<std::int32_t>(i * length + inputs - std::ssize(item.nll)));
    at += room(item);
  }
  const ConstTensor scores = pass_.on_host(pass_.scores());
  with_float_type(scores.dtype(), [&]<class T>() {
    const T* value = scores.as<T>();
    for (const Item& item : items) {
      std::copy_n(value, item.nll.size(), item.nll.begin());
      value += room(item);
    }
  });
}

}  // namespace mt
